"""Who is told when partitions come and go."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeAlias

from semel.client.machine.group.reassignment import Callback, Change
from semel.types import TopicPartition

Told: TypeAlias = Callable[[Sequence[TopicPartition]], Awaitable[None] | None]


class RebalanceListener(Protocol):
    """What a listener may have; each method may be missing, and for ``semel.Consumer`` each may be ``async``.

    They are called from within ``poll``, ``unsubscribe`` and ``close``, never at any other time. What they raise, these
    raise, and the rebalance goes on.
    """

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """These are new, possibly none. Nothing was read of them yet: this is the moment to ``seek``."""

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """These will belong to others when this returns: it is the last moment to ``commit``."""

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """These belong to others already: nothing can be committed. Where it is missing, they count as revoked."""


def told(listener: object | None, callback: Callback) -> Any:
    """Tell the listener; what it returns may have to be awaited."""
    names = {
        Change.ASSIGNED: ("on_partitions_assigned",),
        Change.REVOKED: ("on_partitions_revoked",),
        Change.LOST: ("on_partitions_lost", "on_partitions_revoked"),
    }[callback.change]
    for name in names:
        method: Told | None = getattr(listener, name, None)
        if method is not None:
            return method(list(callback.partitions))
    return None
