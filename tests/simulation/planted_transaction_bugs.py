"""Bugs that brokers and clients have had, or could have: each is a change of one method, and breaks one scenario."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from semel.broker.coordinators.expiry import CoordinatorExpiry
from semel.broker.coordinators.markers import MarkerDelivery
from semel.broker.coordinators.shard_runtime import ShardRuntime, _DelayedDecision
from semel.broker.partitions.transaction_gate import TransactionGate
from semel.client.machine.connection.promise import Promise
from semel.client.machine.consumer import fetched
from semel.client.machine.transaction.transaction import Transaction
from semel.coordinator.group.shard import GroupShard
from semel.coordinator.transaction import shard as transaction_shard
from semel.coordinator.transaction.decisions import end_v1
from semel.coordinator.transaction.shard import TransactionShard
from semel.log.durability.commit import Committer, _Outcome
from semel.log.durability.journal_replay import JournalContent
from semel.log.partition_log import PartitionLog
from semel.log.producers.known_producer import KnownProducer
from semel.log.producers.producer_state import Duplicate, ProducerStates

Plant: TypeAlias = Callable[[pytest.MonkeyPatch], None]


def answers_before_the_decision_is_durable(patch: pytest.MonkeyPatch) -> None:
    """Scenario 31: a power cut takes back what the client was told."""

    def delay(self: Any, decision: Any, waiter: Any, last_offset: int, **how: bool) -> bool:
        self._conclude(_DelayedDecision(decision, waiter))
        return False

    patch.setattr(ShardRuntime, "_delay", delay)


def forgets_the_markers_that_are_owed_after_a_restart(patch: pytest.MonkeyPatch) -> None:
    """Scenario 32: decided, and never carried out."""
    patch.setattr(TransactionShard, "pending_markers", lambda self: [])


def aborts_after_a_restart_what_was_committed(patch: pytest.MonkeyPatch) -> None:
    """Scenario 32: the decision is reversed."""
    sound = TransactionShard.pending_markers
    patch.setattr(
        TransactionShard,
        "pending_markers",
        lambda self: [effect._replace(committed=False) for effect in sound(self)],
    )


def leaves_out_the_marker_of_one_partition(patch: pytest.MonkeyPatch) -> None:
    """Scenario 33: partitions that do not agree."""
    sound = MarkerDelivery.begin

    def begin(self: MarkerDelivery) -> None:
        if len(self._owed) > 1:
            del self._owed[max(self._owed)]
        sound(self)

    patch.setattr(MarkerDelivery, "begin", begin)


def writes_the_opposite_marker_to_one_partition(patch: pytest.MonkeyPatch) -> None:
    """Scenario 33: half a transaction."""
    sound = PartitionLog.append_marker

    def append_marker(self: PartitionLog, producer: Any, marker: Any, **rest: Any) -> Any:
        if self.topic_partition.partition == 1 and not self.topic_partition.topic.startswith("__"):
            marker = marker._replace(committed=not marker.committed)
        return sound(self, producer, marker, **rest)

    patch.setattr(PartitionLog, "append_marker", append_marker)


def shows_one_offset_too_many(patch: pytest.MonkeyPatch) -> None:
    """Scenario 39: the last stable offset is exclusive (redpanda #3036)."""
    sound = PartitionLog._compute_last_stable_offset
    patch.setattr(PartitionLog, "_compute_last_stable_offset", lambda self: min(sound(self) + 1, self.high_watermark))


def takes_the_high_watermark_for_the_last_stable_offset(patch: pytest.MonkeyPatch) -> None:
    """Scenario 39: what is undecided is shown."""
    patch.setattr(PartitionLog, "_compute_last_stable_offset", lambda self: self.high_watermark)


def tells_readers_of_no_aborted_transaction(patch: pytest.MonkeyPatch) -> None:
    """Scenario 41."""
    sound = PartitionLog.read
    patch.setattr(PartitionLog, "read", lambda self, *rest, **more: sound(self, *rest, **more)._replace(aborted=[]))


def appends_what_is_there_already(patch: pytest.MonkeyPatch) -> None:
    """Scenario 1: the duplicate check is skipped."""
    sound = ProducerStates.check

    def check(self: ProducerStates, header: Any, *rest: Any, **more: Any) -> Duplicate | None:
        found = sound(self, header, *rest, **more)
        return None if isinstance(found, Duplicate) else found

    patch.setattr(ProducerStates, "check", check)


def acknowledges_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    """Scenario 67: acknowledged and not on disk."""
    patch.setattr(Committer, "_make_durable", lambda self, *_: _Outcome())


def writes_without_asking_the_coordinator(patch: pytest.MonkeyPatch) -> None:
    """Scenario 42: a transaction that nobody will end."""
    patch.setattr(TransactionGate, "is_open", lambda self, transactional_id, producer: True)


def lets_no_transaction_time_out(patch: pytest.MonkeyPatch) -> None:
    """Scenario 26."""
    patch.setattr(CoordinatorExpiry, "_timeouts", lambda self: iter(()))


def commits_offsets_of_aborted_transactions(patch: pytest.MonkeyPatch) -> None:
    """Scenario 51."""
    _ends_offsets(patch, as_if_committed=True)


def drops_offsets_of_committed_transactions(patch: pytest.MonkeyPatch) -> None:
    """Scenario 51."""
    _ends_offsets(patch, as_if_committed=False)


def _ends_offsets(patch: pytest.MonkeyPatch, *, as_if_committed: bool) -> None:
    """The group's pending offsets are committed, or dropped, whatever the marker says."""
    sound = GroupShard.replay_marker
    patch.setattr(
        GroupShard, "replay_marker", lambda self, producer, committed: sound(self, producer, committed=as_if_committed)
    )


def client_shows_what_was_aborted(patch: pytest.MonkeyPatch) -> None:
    """Scenario 41, on the reader's side."""
    patch.setattr(
        fetched, "visible_batches", lambda records, headers, aborted: (one for one in headers if not one[1].is_control)
    )


def client_commits_before_its_records_are_written(patch: pytest.MonkeyPatch) -> None:
    """The commit overtakes what it commits."""
    sound = Transaction.next_step
    patch.setattr(Transaction, "next_step", lambda self, is_settled: sound(self, is_settled=True))


def forgets_the_last_five_batches(patch: pytest.MonkeyPatch) -> None:
    """Scenario 2: a repetition is called out of order, so the producer bumps its epoch and sends again (redpanda
    #3039)."""
    patch.setattr(KnownProducer, "find", lambda self, header: None)


def commits_what_has_timed_out(patch: pytest.MonkeyPatch) -> None:
    """Scenario 26."""
    sound = TransactionShard.time_out

    def time_out(self: TransactionShard, moment: Any) -> Any:
        return [
            decision._replace(effects=tuple(effect._replace(committed=True) for effect in decision.effects))
            for decision in sound(self, moment)
        ]

    patch.setattr(TransactionShard, "time_out", time_out)


def ends_v2_transactions_without_a_new_epoch(patch: pytest.MonkeyPatch) -> None:
    """Scenario 21: what comes late cannot be told from the next transaction (KAFKA-17754)."""

    def end_v2(transaction: Any, producer_id: int, producer_epoch: int, **rest: Any) -> Any:
        del rest["new_producer_id"]
        decision = end_v1(transaction, producer_id, producer_epoch, **rest)
        response = decision.response._replace(producer_id=producer_id, producer_epoch=producer_epoch)
        return decision._replace(response=response)

    patch.setattr(transaction_shard, "end_v2", end_v2)


def decides_before_it_is_loaded(patch: pytest.MonkeyPatch) -> None:
    """Scenario 36."""
    sound = ShardRuntime.__init__

    def init(self: Any, *rest: Any, **more: Any) -> None:
        sound(self, *rest, **more)
        self.refusal = None

    patch.setattr(ShardRuntime, "__init__", init)


def forgets_the_journal(patch: pytest.MonkeyPatch) -> None:
    """Scenario 67: synced in one place, and not looked for there."""
    patch.setattr(JournalContent, "replay", lambda self, log, *, now_ms: None)


def shows_offsets_that_are_pending(patch: pytest.MonkeyPatch) -> None:
    """Scenario 51: offsets count before their transaction does."""
    sound = GroupShard.replay
    patch.setattr(GroupShard, "replay", lambda self, record, offset, producer: sound(self, record, offset, None))


def client_aborts_without_telling_anybody(patch: pytest.MonkeyPatch) -> None:
    """What was aborted becomes a part of the next transaction."""
    sound = Transaction._next_end

    def next_end(self: Transaction, *, committed: bool) -> Any:
        if committed:
            return sound(self, committed=True)
        self.ended(None)
        return None

    patch.setattr(Transaction, "_next_end", next_end)


def client_forgets_the_offsets(patch: pytest.MonkeyPatch) -> None:
    """Records are committed, and how far they were read is not."""

    def send_offsets(self: Transaction, group: Any, offsets: Any) -> Promise[None]:
        promise: Promise[None] = Promise()
        promise.fulfil(None)
        return promise

    patch.setattr(Transaction, "send_offsets", send_offsets)


def client_leaves_out_a_record(patch: pytest.MonkeyPatch) -> None:
    """A reader goes on one record too far, now and then."""
    sound = fetched.FetchedRecords.take
    patch.setattr(
        fetched.FetchedRecords,
        "take",
        lambda self, count: [record for record in sound(self, count) if record.offset % 10 != 7],
    )
