"""Assigning and revoking partitions, one step at a time, with a callback to the application for each.

The law: a partition is revoked in this order. No more of its records are returned; the offsets of those that were
returned are committed, if the consumer commits automatically; the listener is called; the partition is dropped; and
only then may the group know. All of it happens while the application is in ``poll``: at any other time it may be
processing a record.

Partitions that are lost belong to other members already: they are dropped at once, nothing is committed, and the
listener is called when the application polls again.

``take_changes`` returns what this means for reading, as values in the order in which it happened.
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
    """What the application's listener has to be called with next."""

    change: Change
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Assigned:
    """These partitions were assigned to the member. They are not read before they are ``Announced``."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Announced:
    """The assignment callback for these partitions has run: they are read now."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """These partitions are no longer the member's, because they were revoked or lost: they are not read any more."""

    partitions: tuple[TopicPartition, ...]


PartitionChange: TypeAlias = Assigned | Announced | Withdrawn
CommitAll: TypeAlias = Callable[[float], Promise[None] | None]
"""Commits all changed positions; returns ``None`` if the application commits itself, or there is nothing to commit."""


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
    """Assigns and revokes partitions. ``owned`` are those whose assignment callback has run or is running."""

    def __init__(self, *, commit_timeout_ms: int) -> None:
        self._changes: list[PartitionChange] = []
        self._commit_timeout_ms = commit_timeout_ms
        self._steps: deque[_Step] = deque()
        self._owned: dict[TopicPartition, None] = {}
        self.withdrawals = 0
        """How often partitions were revoked or lost."""

    @property
    def owned(self) -> tuple[TopicPartition, ...]:
        return tuple(self._owned)

    @property
    def is_busy(self) -> bool:
        return bool(self._steps)

    def take_changes(self) -> list[PartitionChange]:
        """Return the changes since the last call."""
        changes, self._changes = self._changes, []
        return changes

    def give_up(self, partitions: Iterable[TopicPartition], done: Callable[[float], None]) -> None:
        """Revoke partitions. ``done`` is called once they are dropped; the group must not know of it earlier."""
        self._steps.append(_Step(Callback(Change.REVOKED, tuple(sorted(partitions))), done))

    def take_over(self, partitions: Iterable[TopicPartition], done: Callable[[float], None]) -> None:
        """Add assigned partitions. The listener is called even if there are none, because a rebalance is over."""
        self._steps.append(_Step(Callback(Change.ASSIGNED, tuple(sorted(partitions))), done))

    def lose(self) -> None:
        """Drop all owned partitions, which belong to other members now, and cancel the steps in progress."""
        self.cancel()
        if self._owned:
            lost = tuple(sorted(self._owned))
            self._drop(lost)
            self._steps.append(_Step(Callback(Change.LOST, lost), _nothing, begun=True))

    def cancel(self) -> None:
        """Cancel all steps, except for the callback about lost partitions."""
        self._steps = deque(step for step in self._steps if step.callback.change is Change.LOST)

    def go_on(self, now_ms: float, commit_all: CommitAll) -> None:
        """Go on as far as possible without a callback. The application must be in ``poll``."""
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
        """Return the callback that is due, before anything else happens. The caller must run it, then call
        ``callback_done``.

        Only here do partitions become this member's. Otherwise the application could ask for the position of a
        partition before its callback, and this mistake would rarely be noticed.
        """
        if not self.is_due:
            return None
        step = self._steps[0]
        step.offered = True
        if step.callback.change is Change.ASSIGNED:
            self._owned.update(dict.fromkeys(step.callback.partitions))
            self._changes.append(Assigned(step.callback.partitions))
        return step.callback

    def callback_done(self, callback: Callback, now_ms: float) -> None:
        """Finish a step whose callback has run. A step that was cancelled meanwhile is ignored."""
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
