"""Partitions come and go, one step at a time, and the application is told of each.

The law: a partition is given up in this order. Nothing of it is handed out any more; what was handed out is committed,
if the consumer commits by itself; the listener is told; the partition is dropped; and only then may the group know.
All of it happens while the application is in ``poll``: at any other time it may be in the middle of a record.

Partitions that are lost belong to others already: they are dropped at once, nothing is committed, and the listener
hears of it when the application comes back.

What this means for reading is told as values: ``take_changes`` gives them in the order they happened.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from semel.client.machine.connection.promise import Promise
from semel.clock import NEVER
from semel.types import TopicPartition

log = logging.getLogger(__name__)


class Change(Enum):
    ASSIGNED = "assigned"
    REVOKED = "revoked"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Callback:
    """What the application's listener has to be told next."""

    change: Change
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Assigned:
    """These partitions are the member's. They are not read before they are ``Announced``."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Announced:
    """The application was told that it has these partitions: they are read now."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """These partitions are no longer the member's, because they were revoked or lost: nothing of them is read."""

    partitions: tuple[TopicPartition, ...]


PartitionChange: TypeAlias = Assigned | Announced | Withdrawn
CommitAll: TypeAlias = Callable[[float], Promise[None] | None]
"""Commits what was handed out; gives ``None`` if the application does that itself, or there is nothing to commit."""


@dataclass(slots=True, eq=False)
class _Step:
    callback: Callback
    done: Callable[[float], None]
    begun: bool = False
    offered: bool = False
    committing: Promise[None] | None = None
    deadline_ms: float = NEVER

    @property
    def is_due(self) -> bool:
        return self.begun and self.committing is None and not self.offered


class Reassignment:
    """``owned`` are the partitions that the application was told of, or is being told of."""

    def __init__(self, *, commit_timeout_ms: int) -> None:
        self._changes: list[PartitionChange] = []
        self._commit_timeout_ms = commit_timeout_ms
        self._steps: deque[_Step] = deque()
        self._owned: dict[TopicPartition, None] = {}
        self.withdrawals = 0
        """How often partitions were taken away."""

    @property
    def owned(self) -> tuple[TopicPartition, ...]:
        return tuple(self._owned)

    @property
    def is_busy(self) -> bool:
        return bool(self._steps)

    def take_changes(self) -> list[PartitionChange]:
        """What has changed since this was called last."""
        changes, self._changes = self._changes, []
        return changes

    def give_up(self, partitions: Iterable[TopicPartition], done: Callable[[float], None]) -> None:
        """``done`` is called once these are dropped: not before may the group hear of it."""
        self._steps.append(_Step(Callback(Change.REVOKED, tuple(sorted(partitions))), done))

    def take_over(self, partitions: Iterable[TopicPartition], done: Callable[[float], None]) -> None:
        """Partitions that were assigned. The application is told even if there are none: a rebalance is over."""
        self._steps.append(_Step(Callback(Change.ASSIGNED, tuple(sorted(partitions))), done))

    def lose(self) -> None:
        """Everything that is owned belongs to others now, whatever was under way."""
        self.cancel()
        if self._owned:
            lost = tuple(sorted(self._owned))
            self._drop(lost)
            self._steps.append(_Step(Callback(Change.LOST, lost), _nothing, begun=True))

    def cancel(self) -> None:
        """Give up what is under way, except for telling the application what it has lost."""
        self._steps = deque(step for step in self._steps if step.callback.change is Change.LOST)

    def go_on(self, now_ms: float, commit_all: CommitAll) -> None:
        """The application is in ``poll``: go as far as is possible without telling it something."""
        if not self._steps:
            return
        step = self._steps[0]
        if not step.begun:
            step.begun = True
            if step.callback.change is Change.REVOKED:
                step.committing = commit_all(now_ms)
                step.deadline_ms = now_ms + self._commit_timeout_ms
        if step.committing is not None and (step.committing.settled or now_ms >= step.deadline_ms):
            if not step.committing.settled:
                log.warning(
                    "offsets were not committed within %d ms; the next owner of %s reads some records again",
                    self._commit_timeout_ms,
                    ", ".join(map(str, step.callback.partitions)),
                )
            step.committing = None

    @property
    def is_due(self) -> bool:
        return bool(self._steps) and self._steps[0].is_due

    def due(self) -> Callback | None:
        """What the application must be told before anything goes on. The caller must tell it, and then call ``told``.

        Partitions become ours here and not a moment before: else one could ask where they stand without having been
        told of them, and the mistake would stay hidden until one is.
        """
        if not self.is_due:
            return None
        step = self._steps[0]
        step.offered = True
        if step.callback.change is Change.ASSIGNED:
            self._owned.update(dict.fromkeys(step.callback.partitions))
            self._changes.append(Assigned(step.callback.partitions))
        return step.callback

    def told(self, callback: Callback, now_ms: float) -> None:
        """The application was told. What was cancelled meanwhile is passed over."""
        if not self._steps or self._steps[0].callback is not callback:
            return
        step = self._steps.popleft()
        match callback.change:
            case Change.ASSIGNED:
                self._changes.append(Announced(callback.partitions))
            case Change.REVOKED:
                self._drop(callback.partitions)
        step.done(now_ms)

    def next_deadline_ms(self, now_ms: float) -> float:
        deadline_ms = self._steps[0].deadline_ms if self._steps and self._steps[0].committing is not None else NEVER
        return deadline_ms if deadline_ms > now_ms else NEVER

    def _drop(self, partitions: tuple[TopicPartition, ...]) -> None:
        self.withdrawals += 1
        for topic_partition in partitions:
            self._owned.pop(topic_partition, None)
        self._changes.append(Withdrawn(partitions))


def _nothing(now_ms: float) -> None:
    pass
