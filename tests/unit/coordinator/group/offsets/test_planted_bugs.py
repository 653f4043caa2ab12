"""Bugs that offset coordinators have had elsewhere, planted one by one: the check of the other tests must see each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from semel.coordinator.group.offsets.committed import StoredOffset
from semel.coordinator.group.offsets.offset_shard import OffsetShard
from semel.coordinator.group.offsets.offset_state import OffsetState
from semel.coordinator.group.offsets.pending import PendingOffsets
from semel.coordinator.group.records import OffsetCommit, OffsetKey, OffsetTombstone
from semel.types import ProducerIdentity
from tests.unit.coordinator.group.offsets.meaning import verify
from tests.unit.coordinator.group.offsets.offset_log import OffsetLog

Offset: TypeAlias = OffsetCommit | OffsetTombstone

ONE = ProducerIdentity(1000, 0)


class DecidedLastWins(OffsetState):
    """redpanda #31483, scenario 55: the marker of an older offset replaces a newer plain commit, until compaction."""

    def replay_marker(self, producer_id: int, committed: bool) -> None:
        for stored in self.pending.end(producer_id):
            if committed:
                self._put(stored)


class TombstonesSparePending(OffsetState):
    """redpanda #31483: what a tombstone has ended comes back with the marker, until compaction."""

    def replay(self, record: Offset, offset: int, producer: ProducerIdentity | None) -> None:
        if isinstance(record, OffsetTombstone):
            self.committed.remove(record.key)
        else:
            super().replay(record, offset, producer)


class SeenBeforeTheMarker(OffsetState):
    """Scenario 51: an offset in a transaction counts at once, also if the transaction is aborted."""

    def replay(self, record: Offset, offset: int, producer: ProducerIdentity | None) -> None:
        if isinstance(record, OffsetCommit):
            self._put(StoredOffset(record, offset))
        super().replay(record, offset, producer)


class AbortsCommit(OffsetState):
    """Scenario 51: the marker's word is not listened to."""

    def replay_marker(self, producer_id: int, committed: bool) -> None:
        super().replay_marker(producer_id, True)


class ForgetsWhatIsPending(OffsetState):
    """Scenario 51: an abort is taken for the end of the committed offset, too."""

    def replay_marker(self, producer_id: int, committed: bool) -> None:
        for stored in self.pending.end(producer_id):
            self.committed.remove(stored.commit.key)
            if committed:
                self._put(stored)


class _Unseen(PendingOffsets):
    def __contains__(self, key: OffsetKey) -> bool:
        return False


class PendingIsStable(OffsetState):
    """redpanda #9571, scenario 52: the next owner of a partition is told the old offset, and processes it again."""

    def replay(self, record: Offset, offset: int, producer: ProducerIdentity | None) -> None:
        self.pending.__class__ = _Unseen
        super().replay(record, offset, producer)


def plain_commit_between_offset_and_marker(log: OffsetLog) -> None:
    log.commit_in(ONE, 10)
    log.commit(5)
    log.end(ONE, committed=True)


def deletion_between_offset_and_marker(log: OffsetLog) -> None:
    log.commit_in(ONE, 10)
    log.write(OffsetTombstone(OffsetKey("payments", "orders", 0)))
    log.end(ONE, committed=True)


def abort(log: OffsetLog) -> None:
    log.commit(5)
    log.commit_in(ONE, 10)
    log.end(ONE, committed=False)


def open_transaction(log: OffsetLog) -> None:
    log.commit(5)
    log.commit_in(ONE, 10)


PLANTED = [
    (DecidedLastWins, plain_commit_between_offset_and_marker),
    (TombstonesSparePending, deletion_between_offset_and_marker),
    (SeenBeforeTheMarker, open_transaction),
    (SeenBeforeTheMarker, abort),
    (AbortsCommit, abort),
    (ForgetsWhatIsPending, abort),
    (PendingIsStable, open_transaction),
]


@pytest.mark.parametrize(("bug", "history"), PLANTED)
def test_a_planted_bug_is_seen(bug: type[OffsetState], history: Callable[[OffsetLog], None]) -> None:
    log = OffsetLog(shard_class=_with(bug))
    history(log)

    with pytest.raises(AssertionError):
        verify(log)


@pytest.mark.parametrize("history", [history for _, history in PLANTED])
def test_without_the_bug_all_is_well(history: Callable[[OffsetLog], None]) -> None:
    log = OffsetLog()
    history(log)

    verify(log)


def _with(bug: type[OffsetState]) -> type[OffsetShard]:
    class Planted(OffsetShard):
        def __init__(self, **arguments: Any) -> None:
            super().__init__(**arguments)
            self._state.__class__ = bug

    return Planted
