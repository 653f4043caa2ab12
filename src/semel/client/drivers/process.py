"""The process that runs now. A fork makes another one, with the same memory, no threads, and shared sockets."""

from __future__ import annotations

import os

from semel.errors import StateError


class Process:
    """The process that a client was made in; ``check`` raises in every other."""

    __slots__ = ("_current",)

    def __init__(self) -> None:
        self._current = _current

    @property
    def is_current(self) -> bool:
        return self._current is _current

    def check(self, title: str) -> None:
        if not self.is_current:
            raise StateError(
                f"this {title} was made before the process was forked, and its thread and connections stayed behind: "
                "make one in every process that uses one"
            )


# One object for each process: a fork gives the child another one.
_current = object()


def _forked() -> None:
    global _current
    _current = object()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
