"""Docstrings for the blocking classes, copied from the asyncio classes without ``await``."""

from __future__ import annotations


def copy_docstrings(blocking: type, asynchronous: type) -> None:
    """Copy docstrings of a class and its public calls from its asyncio counterpart, where it has none itself."""
    if blocking.__doc__ is None:
        blocking.__doc__ = asynchronous.__doc__
    for name, call in vars(blocking).items():
        original = getattr(asynchronous, name, None)
        if not name.startswith("_") and original is not None and call.__doc__ is None:
            call.__doc__ = (original.__doc__ or "").replace("await ", "").replace("async with", "with")
