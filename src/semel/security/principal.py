"""Who a connection belongs to."""

from __future__ import annotations

from typing import Final, NamedTuple


class Principal(NamedTuple):
    """``User:alice``. The type is always User where Semel decides who a client is."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Principal:
        """Raises ``ValueError``."""
        kind, colon, name = text.partition(":")
        if not (kind and colon and name):
            raise ValueError(f"{text!r} is no principal: expected a type and a name, such as User:alice")
        return cls(kind, name)


def user(name: str) -> Principal:
    return Principal("User", name)


ANONYMOUS: Final = user("ANONYMOUS")
"""A client of a listener that asks for no proof of identity."""
