"""The words of an asyncio class, for its blocking twin: what is said of a call holds for both, but for ``await``."""

from __future__ import annotations


def with_words_of(blocking: type, asynchronous: type) -> None:
    """Document what the twin does not document itself."""
    if blocking.__doc__ is None:
        blocking.__doc__ = asynchronous.__doc__
    for name, call in vars(blocking).items():
        original = getattr(asynchronous, name, None)
        if not name.startswith("_") and original is not None and call.__doc__ is None:
            call.__doc__ = (original.__doc__ or "").replace("await ", "").replace("async with", "with")
