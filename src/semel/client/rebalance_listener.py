"""The rebalance listener, which is called when partitions are assigned, revoked or lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeAlias

from semel.client.machine.group.reassignment import Callback, Change
from semel.types import TopicPartition

ListenerMethod: TypeAlias = Callable[[Sequence[TopicPartition]], Awaitable[None] | None]


class RebalanceListener(Protocol):
    """The methods of a listener; each may be missing, and for ``semel.Consumer`` each may be ``async``.

    They are called from within ``poll``, ``unsubscribe`` and ``close``, never at any other time. These calls raise what
    a method raises, and the rebalance goes on.
    """

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Called with new partitions, possibly none. Nothing was read of them yet: this is the moment to ``seek``."""

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Called with partitions that go to other members when this returns: the last moment to ``commit``."""

    def on_partitions_lost(self, partitions: Sequence[TopicPartition]) -> Awaitable[None] | None:
        """Called with partitions that other members have already: nothing can be committed.

        If this method is missing, ``on_partitions_revoked`` is called.
        """


def call_listener(listener: object | None, callback: Callback) -> Any:
    """Call the listener's method for a callback, and return its result, which may have to be awaited."""
    names = {
        Change.ASSIGNED: ("on_partitions_assigned",),
        Change.REVOKED: ("on_partitions_revoked",),
        Change.LOST: ("on_partitions_lost", "on_partitions_revoked"),
    }[callback.change]
    for name in names:
        method: ListenerMethod | None = getattr(listener, name, None)
        if method is not None:
            return method(list(callback.partitions))
    return None
