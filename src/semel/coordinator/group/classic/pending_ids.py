"""Member ids that were handed out and not yet used: a set that is replaced, never changed.

A group is a value, so each id that is handed out makes a new set. One frozen set of ten thousand ids would be copied
each time; here the set has many parts, of which one is copied and the others are shared.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Final

PENDING_IDS_MAX: Final = 10_000
"""The limit for one group. Kafka has none (``group.max.size`` counts members): a client that requests ids and joins
with none of them takes memory for the session timeout that it requests, which may be half an hour."""

_PARTS: Final = 128
_EMPTY: Final[tuple[frozenset[str], ...]] = (frozenset(),) * _PARTS


class PendingIds(Set[str]):
    __slots__ = ("_count", "_parts")

    def __init__(self, parts: tuple[frozenset[str], ...] = _EMPTY, count: int = 0) -> None:
        self._parts = parts
        self._count = count

    def __contains__(self, member_id: object) -> bool:
        return self._count > 0 and member_id in self._parts[hash(member_id) % _PARTS]

    def __iter__(self) -> Iterator[str]:
        """Yield the member ids, in no particular order."""
        for part in self._parts:
            yield from part

    def __len__(self) -> int:
        return self._count

    def __hash__(self) -> int:
        return self._hash()

    def with_id(self, member_id: str) -> PendingIds:
        if member_id in self:
            return self
        return self._replaced(member_id, self._part(member_id) | {member_id}, self._count + 1)

    def without(self, member_id: str) -> PendingIds:
        if member_id not in self:
            return self
        if self._count == 1:
            return NO_IDS
        return self._replaced(member_id, self._part(member_id) - {member_id}, self._count - 1)

    @classmethod
    def _from_iterable(cls, member_ids: object) -> frozenset[str]:  # type: ignore[override]
        """The result of set operators such as ``&``: a plain frozenset."""
        return frozenset(member_ids)  # type: ignore[call-overload, no-any-return]

    def _part(self, member_id: str) -> frozenset[str]:
        return self._parts[hash(member_id) % _PARTS]

    def _replaced(self, member_id: str, part: frozenset[str], count: int) -> PendingIds:
        at = hash(member_id) % _PARTS
        return PendingIds((*self._parts[:at], part, *self._parts[at + 1 :]), count)


NO_IDS: Final = PendingIds()
