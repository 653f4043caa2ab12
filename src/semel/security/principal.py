"""Principals: the identities of clients (Kafka: ``KafkaPrincipal``)."""

from __future__ import annotations

from typing import Final, NamedTuple


class Principal(NamedTuple):
    """An identity, such as ``User:alice``. The principals of clients always have the type User."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type}:{self.name}"

    @classmethod
    def parse(cls, text: str) -> Principal:
        """Return the principal of a text such as ``User:alice``. Raises ``ValueError``."""
        kind, colon, name = text.partition(":")
        if not (kind and colon and name):
            raise ValueError(f"{text!r} is no principal: expected a type and a name, such as User:alice")
        return cls(kind, name)


def user(name: str) -> Principal:
    return Principal("User", name)


ANONYMOUS: Final = user("ANONYMOUS")
"""The principal of clients on a listener without authentication."""
