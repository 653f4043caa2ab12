"""The entities that client quotas are set for (Kafka: ``ClientQuotaEntity``)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum


class Quoted(Enum):
    """Values that take the place of a name in a quota entity or a filter."""

    DEFAULT = "the default"
    """All users, client ids or addresses that have no quota of their own."""
    ANY = "any"
    """In a filter: every name that has a quota of its own, and the default."""


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """The entity of a quota: a user, a client id, both together, or an IP address.

    ``Quoted.DEFAULT`` means all names that have no quota of their own. Examples:

    QuotaEntity(user="alice"), QuotaEntity(user="alice", client_id=Quoted.DEFAULT)
    """

    user: str | Quoted | None = None
    client_id: str | Quoted | None = None
    ip: str | Quoted | None = None

    def __post_init__(self) -> None:
        if self.ip is not None and (self.user, self.client_id) != (None, None):
            raise ValueError(f"{self}: a quota is for an address, or for users and clients, not for both")

    def __str__(self) -> str:
        parts = (f"{kind} {repr(name) if isinstance(name, str) else name.value}" for kind, name in self.parts())
        return ", ".join(parts) or "everybody"

    def parts(self) -> Iterator[tuple[str, str | Quoted]]:
        """Yield the parts that are set: the entity type, under Kafka's name, and the name."""
        for kind, name in (("user", self.user), ("client-id", self.client_id), ("ip", self.ip)):
            if name is not None:
                yield kind, name
