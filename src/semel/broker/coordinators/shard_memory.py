"""What a shard knows that is not in its log, as far as the runtime must deal with it.

Members that are joining, requests that were deferred, deadlines: a ``Change`` makes it, time moves it, and when the
shard is given up those who wait are told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

from semel.clock import Clock
from semel.coordinator.decision import Decision
from semel.coordinator.group.effects import Answer
from semel.coordinator.group.moment import Moment
from semel.coordinator.group.shard import GroupShard
from semel.coordinator.group.topics import TopicsView
from semel.errors import ErrorCode

ShardIn = TypeVar("ShardIn", contravariant=True)


class ShardMemory(Protocol[ShardIn]):
    def apply(self, shard: ShardIn, changes: tuple[Any, ...]) -> None:
        """What was decided is true from now on."""

    def next_due_ms(self, shard: ShardIn) -> float | None:
        """When, on the monotonic clock, time alone makes the shard decide something."""

    def tick(self, shard: ShardIn) -> Iterable[Decision[Any, Any, Any]]:
        """What the shard decides because of the time. Each one is carried through before the next is asked for."""

    def refuse(self, shard: ShardIn, code: ErrorCode) -> None:
        """The shard is given up: tell everybody whose request it has deferred."""

    def refuse_effect(self, effect: Any, code: ErrorCode) -> None:
        """It will not be carried out: tell whoever waits for it."""


class NothingRemembered:
    """Of a shard that is its log, and nothing else."""

    def apply(self, shard: object, changes: tuple[Any, ...]) -> None:
        assert not changes, f"{changes!r} of a shard that remembers nothing beside its log"

    def next_due_ms(self, shard: object) -> float | None:
        return None

    def tick(self, shard: object) -> Iterable[Decision[Any, Any, Any]]:
        return ()

    def refuse(self, shard: object, code: ErrorCode) -> None:
        """Nobody waits."""

    def refuse_effect(self, effect: object, code: ErrorCode) -> None:
        """Nobody waits."""


class GroupMemory:
    """Of a group shard."""

    def __init__(self, clock: Clock, topics: Callable[[], TopicsView]) -> None:
        self._clock = clock
        self._topics = topics

    def apply(self, shard: GroupShard, changes: tuple[Any, ...]) -> None:
        for change in changes:
            shard.apply(change)

    def next_due_ms(self, shard: GroupShard) -> float | None:
        return shard.next_due_ms()

    def tick(self, shard: GroupShard) -> Iterable[Decision[Any, Any, Any]]:
        return shard.tick(moment(self._clock), self._topics())

    def refuse(self, shard: GroupShard, code: ErrorCode) -> None:
        for waiter in shard.unload():
            waiter(code)

    def refuse_effect(self, effect: Answer, code: ErrorCode) -> None:
        effect.waiter(code)


def moment(clock: Clock) -> Moment:
    return Moment(clock.now_ms(), clock.monotonic_ms())
