"""Producer state, scenario by scenario. The numbers are those of the list of exactly-once scenarios."""

from __future__ import annotations

import pytest

from semel.errors import ErrorCode, KafkaError
from semel.log.producers import producer_state
from semel.log.producers.producer_state import (
    CompletedTransaction,
    Duplicate,
    OpenTransaction,
    ProducerDescription,
    ProducerStates,
)
from semel.types import INT32_MAX, TopicPartition
from semel.wire.control import EndTransactionMarker
from semel.wire.records import CONTROL_BIT, NO_SEQUENCE, TRANSACTIONAL_BIT, BatchHeader

DAY_MS = 86_400_000


def batch(
    sequence: int,
    count: int = 1,
    *,
    offset: int = 0,
    producer: int = 1000,
    epoch: int = 0,
    transactional: bool = False,
    control: bool = False,
    timestamp: int = 0,
    emptied: bool = False,
) -> BatchHeader:
    return BatchHeader(
        base_offset=offset,
        batch_length=49,
        partition_leader_epoch=0,
        magic=2,
        crc=0,
        attributes=(TRANSACTIONAL_BIT if transactional else 0) | (CONTROL_BIT if control else 0),
        last_offset_delta=count - 1,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        record_count=0 if emptied else count,
    )


class Partition:
    """A log that holds nothing but headers: what passes the check is given the next offsets and replayed."""

    def __init__(self) -> None:
        self.states = ProducerStates(TopicPartition("orders", 3))
        self.end_offset = 0
        self.headers: list[tuple[BatchHeader, EndTransactionMarker | None]] = []

    def send(self, sequence: int, count: int = 1, **fields: int) -> int | Duplicate:
        """The base offset, or the duplicate it is."""
        header = batch(sequence, count, offset=self.end_offset, **fields)
        duplicate = self.states.check(header)
        return self.replay(header) if duplicate is None else duplicate

    def replay(self, header: BatchHeader) -> int:
        header = header._replace(base_offset=self.end_offset)
        self.states.replay(header)
        self.headers.append((header, None))
        self.end_offset = header.next_offset
        return header.base_offset

    def end(
        self,
        *,
        committed: bool = True,
        producer: int = 1000,
        epoch: int = 0,
        coordinator_epoch: int = 0,
        transaction_version: int = 1,
        timestamp: int = 0,
    ) -> CompletedTransaction | None:
        marker = EndTransactionMarker(committed, coordinator_epoch)
        self.states.check_marker(producer, epoch, marker, transaction_version=transaction_version)
        header = batch(
            NO_SEQUENCE,
            offset=self.end_offset,
            producer=producer,
            epoch=epoch,
            transactional=True,
            control=True,
            timestamp=timestamp,
        )
        self.headers.append((header, marker))
        self.end_offset += 1
        return self.states.replay(header, marker)

    def reloaded(self) -> ProducerStates:
        """What a start makes of a snapshot at the end of the log."""
        states = ProducerStates(self.states.topic_partition)
        states.load(self.states.snapshot_entries())
        return states


@pytest.fixture
def partition() -> Partition:
    return Partition()


def refused(code: ErrorCode, states: ProducerStates, header: BatchHeader, **options: bool) -> str:
    before = states.snapshot_entries(), states.open_transactions
    with pytest.raises(KafkaError) as refusal:
        states.check(header, **options)
    assert refusal.value.code == code
    assert (states.snapshot_entries(), states.open_transactions) == before
    return refusal.value.message


# Repetitions


def test_retry_is_answered_with_the_original_offsets__scenario_1(partition: Partition) -> None:
    partition.send(0, 3, producer=7)
    partition.send(0, 10, timestamp=55)
    partition.send(3, 3, producer=7)
    assert partition.send(0, 10) == Duplicate(base_offset=3, last_offset=12, timestamp=55)


def test_each_of_the_last_five_batches_is_a_duplicate__scenario_2(partition: Partition) -> None:
    for sequence in range(0, 12, 2):
        partition.send(sequence, 2)
    assert [partition.send(sequence, 2) for sequence in range(2, 12, 2)] == [
        Duplicate(offset, offset + 1, 0) for offset in range(2, 12, 2)
    ]


def test_batch_older_than_the_last_five_is_called_a_duplicate__scenario_2(partition: Partition) -> None:
    for sequence in range(0, 14, 2):
        partition.send(sequence, 2)
    message = refused(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, partition.states, batch(2, 2))
    assert message == (
        "sequences 2 to 3 from producer 1000 epoch 0 on orders-3 are in the log; "
        "their offsets are remembered only from sequence 4 on"
    )


@pytest.mark.parametrize(
    ("sequence", "count"),
    [
        pytest.param(28, 4, id="reaches beyond the last"),
        pytest.param(20, 20, id="covers two and reaches beyond"),
        pytest.param(21, 3, id="within a batch"),
        pytest.param(20, 4, id="the first part of a batch"),
        pytest.param(12, 10, id="two batches as one"),
        pytest.param(3, 5, id="half in the window, half older"),
        pytest.param(1, 5, id="one in the window, the others older"),
    ],
)
def test_partial_overlap_is_out_of_order__scenario_2(partition: Partition, sequence: int, count: int) -> None:
    for first in range(0, 30, 5):
        partition.send(first, 5)
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, partition.states, batch(sequence, count))


def test_batch_that_was_overtaken_is_not_called_a_duplicate(partition: Partition) -> None:
    """A producer comes back after expiry with two batches in flight, and only the second one arrives.

    It is accepted, for the producer is not known. The first is not in the log, so a retry must not be told that it is.
    """
    partition.send(60, 10)
    partition.send(70, 10)
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, partition.states, batch(50, 10))


def test_sequences_below_a_gap_in_the_log_are_not_called_duplicates(partition: Partition) -> None:
    partition.send(0, 5)
    for sequence in range(20, 50, 5):
        partition.replay(batch(sequence, 5))
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, partition.states, batch(15, 5))
    refused(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, partition.states, batch(20, 5))


# Order


def test_gap_is_refused_and_changes_nothing__scenario_3(partition: Partition) -> None:
    partition.send(0, 10, epoch=2)
    message = refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, partition.states, batch(11, epoch=2))
    assert message == "sequence 11 after 9 from producer 1000 epoch 2 on orders-3; expected 10"
    assert partition.send(10, epoch=2) == 10


def test_sequence_wraps_between_batches__scenario_4(partition: Partition) -> None:
    partition.send(INT32_MAX - 9, 10)
    assert partition.send(0, 5) == 10


def test_sequence_wraps_inside_a_batch__scenario_4(partition: Partition) -> None:
    partition.send(INT32_MAX - 9, 10 + 5)
    assert partition.states.describe()[0].last_sequence == 4
    assert partition.send(5, 5) == 15
    assert partition.send(INT32_MAX - 9, 15) == Duplicate(0, 14, 0)


@pytest.mark.parametrize("sequence", [1, INT32_MAX - 5])
def test_wrong_wrap_is_refused__scenario_4(partition: Partition, sequence: int) -> None:
    partition.send(INT32_MAX - 9, 10)
    message = refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, partition.states, batch(sequence))
    assert message.endswith("expected 0")


def test_batch_older_than_the_last_five_is_recognised_across_the_wrap__scenario_4(partition: Partition) -> None:
    partition.send(INT32_MAX - 9, 5)
    partition.send(INT32_MAX - 4, 10)
    for sequence in range(5, 10):
        partition.send(sequence)
    refused(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, partition.states, batch(INT32_MAX - 4, 10))
    refused(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, partition.states, batch(INT32_MAX - 9, 5))
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, partition.states, batch(INT32_MAX - 14, 5))


def test_what_lies_ahead_is_a_gap_even_when_the_ring_has_gone_round__scenario_4(partition: Partition) -> None:
    for _ in range(4):
        for quarter in range(4):
            partition.replay(batch(quarter * 2**29, 2**29))
    partition.replay(batch(0, 10))
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, partition.states, batch(20, 10))


# Epochs


def test_older_epoch_is_fenced__scenario_5(partition: Partition) -> None:
    partition.send(0, epoch=3)
    message = refused(ErrorCode.INVALID_PRODUCER_EPOCH, partition.states, batch(1, epoch=2))
    assert message == "epoch 2 of producer 1000 on orders-3 after epoch 3; it never goes back"


def test_newer_epoch_starts_at_zero__scenario_5(partition: Partition) -> None:
    partition.send(0, 5, epoch=3)
    message = refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, partition.states, batch(5, epoch=4))
    assert message == "sequence 5 as the first after epoch 3 from producer 1000 epoch 4 on orders-3; expected 0"
    assert partition.send(0, 5, epoch=4) == 5


def test_batch_of_an_older_epoch_is_no_duplicate_of_the_newer_ones__scenario_5(partition: Partition) -> None:
    partition.send(0, 5, epoch=3)
    partition.send(0, 5, epoch=4)
    assert partition.send(0, 5, epoch=4) == Duplicate(5, 9, 0)
    refused(ErrorCode.INVALID_PRODUCER_EPOCH, partition.states, batch(0, 5, epoch=3))


def test_unknown_producer_may_start_anywhere__scenario_5(partition: Partition) -> None:
    assert partition.send(17, 5, epoch=3) == 0
    assert partition.send(22, 5, epoch=3) == 5


def test_unknown_producer_of_transactions_v2_starts_at_zero__scenario_5(partition: Partition) -> None:
    """KAFKA-18202."""
    message = refused(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        partition.states,
        batch(17, epoch=3, transactional=True),
        require_zero_first=True,
    )
    assert message == "sequence 17 as the first from producer 1000 epoch 3 on orders-3; expected 0"
    assert partition.states.check(batch(0, epoch=3, transactional=True), require_zero_first=True) is None


def test_epoch_that_a_marker_began_starts_at_zero__scenario_5(partition: Partition) -> None:
    partition.send(0, 5, transactional=True)
    partition.end(epoch=1, transaction_version=2)
    message = refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, partition.states, batch(5, epoch=1))
    assert message == "sequence 5 as the first of its epoch from producer 1000 epoch 1 on orders-3; expected 0"
    assert partition.send(0, epoch=1, transactional=True) == 6


def test_batches_without_a_producer_are_nobodys_business(partition: Partition) -> None:
    header = batch(NO_SEQUENCE, producer=-1, epoch=-1)
    assert partition.states.check(header) is None
    assert partition.states.replay(header) is None
    assert partition.states.describe() == []


def test_batches_without_a_sequence_are_fenced_but_not_counted(partition: Partition) -> None:
    """Offsets that a group coordinator writes for a transaction."""
    partition.send(NO_SEQUENCE, 3, epoch=1, transactional=True)
    assert partition.send(NO_SEQUENCE, 3, epoch=1, transactional=True) == 3
    refused(ErrorCode.INVALID_PRODUCER_EPOCH, partition.states, batch(NO_SEQUENCE, epoch=0, transactional=True))
    assert partition.states.describe()[0].last_sequence is None
    assert partition.states.snapshot_entries()[0].last_offset == 5


def test_replay_takes_what_a_check_would_refuse__scenario_7(partition: Partition) -> None:
    partition.replay(batch(0, 5, epoch=2))
    partition.replay(batch(40, 5, epoch=2))
    assert partition.send(45, epoch=2) == 10
    assert partition.send(40, 5, epoch=2) == Duplicate(5, 9, 0)
    partition.replay(batch(8, 1, epoch=1))
    assert partition.states.describe()[0].producer_epoch == 1


# Transactions


def test_transaction_runs_from_its_first_batch_to_its_marker(partition: Partition) -> None:
    partition.send(0, 5)
    partition.send(5, 5, transactional=True)
    partition.send(10, 5, transactional=True, timestamp=8)
    assert partition.states.open_transactions == [OpenTransaction(1000, 0, first_offset=5, last_timestamp=8)]
    assert partition.end(committed=False) == CompletedTransaction(1000, 5, 15, committed=False)
    assert partition.states.open_transactions == []
    assert partition.send(15, transactional=True) == 16


def test_non_transactional_batch_in_an_open_transaction_is_refused__scenario_43(partition: Partition) -> None:
    partition.send(0, transactional=True)
    message = refused(ErrorCode.INVALID_TXN_STATE, partition.states, batch(1))
    assert message == (
        "non-transactional batch from producer 1000 epoch 0 on orders-3 with a transaction open since offset 0; "
        "until it ends, every batch of this producer is part of it"
    )
    partition.end()
    assert partition.send(1) == 2


def test_records_of_two_epochs_never_share_a_transaction(partition: Partition) -> None:
    partition.send(0, transactional=True)
    refused(ErrorCode.INVALID_TXN_STATE, partition.states, batch(0, epoch=1, transactional=True))
    assert [opened.producer_epoch for opened in partition.states.open_transactions] == [0]
    partition.end(committed=False, epoch=1)
    assert partition.send(0, epoch=1, transactional=True) == 2
    assert [opened.producer_epoch for opened in partition.states.open_transactions] == [1]


def test_last_stable_offset_is_held_by_the_oldest_open_transaction__scenario_39(partition: Partition) -> None:
    partition.send(0, producer=1, transactional=True)
    partition.send(0, producer=2, transactional=True)
    partition.end(producer=2)
    assert partition.states.first_unstable_offset(high_watermark=3) == 0
    assert partition.states.first_undecided_offset == 0
    partition.end(producer=1, committed=False)
    assert partition.states.first_unstable_offset(high_watermark=4) is None
    assert partition.states.first_undecided_offset is None


def test_ended_transaction_is_unstable_until_the_high_watermark_passes_its_marker__scenario_40(
    partition: Partition,
) -> None:
    partition.send(0, 5, transactional=True)
    partition.end()
    assert partition.states.first_unstable_offset(high_watermark=5) == 0
    assert partition.states.first_unstable_offset(high_watermark=6) is None
    partition.states.forget_completed_below(5)
    assert partition.states.first_unstable_offset(high_watermark=5) == 0
    partition.states.forget_completed_below(6)
    assert partition.states.first_unstable_offset(high_watermark=6) is None


def test_transaction_that_ended_first_may_have_begun_last(partition: Partition) -> None:
    for producer in (1, 2, 3):
        partition.send(0, producer=producer, transactional=True)
    for producer in (2, 3, 1):
        partition.end(producer=producer)
    partition.send(1, producer=2, transactional=True)
    assert [partition.states.first_unstable_offset(high_watermark) for high_watermark in (3, 4, 5, 6)] == [0, 0, 0, 6]


def test_zombie_coordinator_is_fenced__scenario_35(partition: Partition) -> None:
    partition.send(0, transactional=True)
    partition.end(coordinator_epoch=4)
    with pytest.raises(KafkaError) as refusal:
        partition.end(coordinator_epoch=3)
    assert refusal.value.code == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert refusal.value.message == (
        "marker from coordinator epoch 3 for producer 1000 on orders-3 after coordinator epoch 4; it never goes back"
    )
    with pytest.raises(KafkaError, match="COORDINATOR_FENCED"):
        partition.reloaded().check_marker(1000, 0, EndTransactionMarker(True, 3))


def test_zombie_coordinator_of_an_empty_transaction_is_fenced__scenario_35(partition: Partition) -> None:
    partition.end(coordinator_epoch=4)
    with pytest.raises(KafkaError, match="COORDINATOR_FENCED"):
        partition.end(coordinator_epoch=3)


def test_late_marker_of_a_fenced_epoch_is_refused__scenario_45(partition: Partition) -> None:
    partition.send(0, epoch=5, transactional=True)
    with pytest.raises(KafkaError) as refusal:
        partition.end(epoch=4)
    assert refusal.value.code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal.value.message == (
        "marker with epoch 4 for producer 1000 on orders-3 after epoch 5; it never goes back"
    )
    assert partition.end(epoch=5) == CompletedTransaction(1000, 0, 1, committed=True)


def test_marker_of_an_empty_transaction_moves_only_the_epochs__scenario_45(partition: Partition) -> None:
    partition.send(0, 5)
    partition.send(0, producer=2, transactional=True)
    assert partition.end(epoch=1, coordinator_epoch=6, timestamp=9, committed=False) is None
    assert partition.states.first_unstable_offset(high_watermark=0) == 5
    assert partition.states.describe()[1] == ProducerDescription(1000, 1, None, 9, 6, None)
    refused(ErrorCode.INVALID_PRODUCER_EPOCH, partition.states, batch(5, epoch=0))


def test_marker_of_transactions_v2_raises_the_epoch(partition: Partition) -> None:
    partition.send(0, transactional=True)
    with pytest.raises(
        KafkaError, match=r"marker with epoch 0 .* after epoch 0; a marker of transactions V2 raises it"
    ):
        partition.end(epoch=0, transaction_version=2)
    assert partition.end(epoch=1, transaction_version=2) == CompletedTransaction(1000, 0, 1, committed=True)


def test_marker_of_transactions_v2_may_be_repeated_while_nothing_is_open__scenario_34(partition: Partition) -> None:
    """KAFKA-19999."""
    partition.send(0, transactional=True)
    partition.end(epoch=1, transaction_version=2)
    assert partition.end(epoch=1, transaction_version=2) is None


def test_marker_of_transactions_v2_that_comes_late_does_not_touch_the_next_transaction__scenario_34(
    partition: Partition,
) -> None:
    """KAFKA-19999. The retried marker of one transaction carries the epoch of the next."""
    partition.send(0, transactional=True)
    partition.end(epoch=1, transaction_version=2)
    partition.send(0, epoch=1, transactional=True)
    with pytest.raises(KafkaError, match="INVALID_PRODUCER_EPOCH"):
        partition.end(epoch=1, transaction_version=2)
    assert partition.states.open_transactions == [OpenTransaction(1000, 1, first_offset=2, last_timestamp=0)]


def test_v1_marker_keeps_the_window(partition: Partition) -> None:
    partition.send(0, 5, transactional=True)
    partition.end()
    assert partition.send(0, 5, transactional=True) == Duplicate(0, 4, 0)
    assert partition.send(5, 5, transactional=True) == 6


def test_emptied_batches_tell_epoch_and_sequence_but_open_nothing(partition: Partition) -> None:
    """Compaction keeps a producer's last batch for its sequence, and its last marker for its epoch."""
    partition.replay(batch(5, 5, transactional=True, emptied=True))
    assert partition.states.open_transactions == []
    assert partition.send(10) == 5
    emptied_marker = batch(NO_SEQUENCE, epoch=2, transactional=True, control=True, emptied=True, timestamp=3)
    assert partition.states.replay(emptied_marker) is None
    assert partition.states.describe() == [ProducerDescription(1000, 2, None, 3, None, None)]


# Time


def test_idle_producer_expires_and_may_then_start_anywhere__scenario_5(partition: Partition) -> None:
    partition.send(0, 5, timestamp=1000)
    partition.send(0, 5, producer=7, timestamp=1001)
    assert partition.states.expire(1000 + DAY_MS - 1) == []
    assert partition.states.expire(1000 + DAY_MS) == [1000]
    assert partition.states.producer_count == 1
    assert partition.send(17, 5) == 10


def test_producer_with_an_open_transaction_never_expires__scenario_15(partition: Partition) -> None:
    partition.send(0, transactional=True, timestamp=1000)
    assert partition.states.expire(1000 + 10 * DAY_MS) == []
    partition.end(timestamp=2000)
    assert partition.states.expire(2000 + DAY_MS) == [1000]


def test_marker_counts_as_activity(partition: Partition) -> None:
    """KAFKA-9144: expired too early, the producer would take the coordinator's epoch with it."""
    partition.send(0, transactional=True, timestamp=1000)
    partition.end(timestamp=1000 + DAY_MS, coordinator_epoch=3)
    assert partition.states.expire(1000 + DAY_MS) == []
    with pytest.raises(KafkaError, match="COORDINATOR_FENCED"):
        partition.end(coordinator_epoch=2)


def test_producer_that_writes_old_timestamps_is_not_idle(partition: Partition) -> None:
    arrived_ms = 100 * DAY_MS
    partition.states.replay(batch(0, timestamp=1000), now_ms=arrived_ms)
    assert partition.states.expire(arrived_ms + DAY_MS - 1) == []
    assert partition.states.describe()[0].last_timestamp == 1000
    assert partition.states.expire(arrived_ms + DAY_MS) == [1000]


# Snapshots


def test_producer_outlives_its_records__scenario_9(partition: Partition) -> None:
    """All its batches were deleted: a start has the snapshot, and no header to refill the window from."""
    partition.send(0, 5)
    partition.send(5, 5)
    states = partition.reloaded()
    assert states.check(batch(10)) is None
    assert states.check(batch(5, 5)) == Duplicate(5, 9, 0)
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, states, batch(11))
    refused(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, states, batch(0, 5))


def test_snapshot_restores_open_transactions_in_the_order_of_offsets__scenario_12(partition: Partition) -> None:
    partition.send(0, producer=5, transactional=True)
    partition.send(0, producer=9, transactional=True)
    partition.send(0, producer=2, transactional=True)
    partition.end(producer=5)
    partition.send(1, producer=5, transactional=True)
    states = partition.reloaded()
    assert states.open_transactions == partition.states.open_transactions
    assert [transaction.producer_id for transaction in states.open_transactions] == [9, 2, 5]
    assert states.first_unstable_offset(high_watermark=5) == 1
    marker = batch(NO_SEQUENCE, offset=5, producer=9, control=True, transactional=True)
    assert states.replay(marker, EndTransactionMarker(False, 0)) == CompletedTransaction(9, 1, 5, committed=False)
    assert states.first_unstable_offset(high_watermark=6) == 2


def test_loaded_producer_expires_by_the_time_in_the_snapshot(partition: Partition) -> None:
    partition.send(0, timestamp=1000)
    states = partition.reloaded()
    assert states.expire(1000 + DAY_MS - 1) == []
    assert states.expire(1000 + DAY_MS) == [1000]


@pytest.mark.parametrize("ascending", [True, False])
def test_window_is_refilled_from_earlier_headers_in_any_order(partition: Partition, ascending: bool) -> None:
    partition.send(0, epoch=1)
    for sequence in range(0, 14, 2):
        partition.send(sequence, 2, epoch=2, timestamp=sequence)
        partition.send(sequence, 2, producer=7, timestamp=sequence)
    states = partition.reloaded()
    for header, _ in partition.headers if ascending else reversed(partition.headers):
        states.remember_earlier(header)
    for sequence in range(4, 14, 2):
        assert states.check(batch(sequence, 2, epoch=2)) == partition.states.check(batch(sequence, 2, epoch=2))
    refused(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, states, batch(2, 2, epoch=2))
    assert states.snapshot_entries() == partition.states.snapshot_entries()


def test_refilling_gives_the_last_batch_its_own_timestamp_back(partition: Partition) -> None:
    partition.send(0, transactional=True, timestamp=10)
    partition.end(timestamp=99)
    states = partition.reloaded()
    for header, _ in partition.headers:
        states.remember_earlier(header)
    assert states.check(batch(0, transactional=True)) == Duplicate(0, 0, timestamp=10)
    assert states.describe()[0].last_timestamp == 99


def test_refilling_takes_only_what_precedes(partition: Partition) -> None:
    partition.send(20, 5)
    states = partition.reloaded()
    states.remember_earlier(batch(25, 5, offset=5))
    states.remember_earlier(batch(30, 5, offset=-5))
    states.remember_earlier(batch(15, 5, offset=-5, epoch=7))
    states.remember_earlier(batch(0, 5, offset=-5, producer=8))
    assert states.describe() == partition.states.describe()
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, states, batch(30, 5))
    refused(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, states, batch(15, 5))
    assert states.check(batch(25, 5)) is None


def test_batch_that_compaction_took_out_of_the_window_is_called_a_duplicate(partition: Partition) -> None:
    for sequence in (0, 5, 10):
        partition.send(sequence, 5)
    states = partition.reloaded()
    states.remember_earlier(partition.headers[0][0])
    refused(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, states, batch(5, 5))
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, states, batch(4, 6))
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, states, batch(5, 6))


def test_batch_with_the_wrap_inside_is_recognised_after_loading(partition: Partition) -> None:
    partition.send(INT32_MAX - 9, 10 + 5)
    assert partition.reloaded().check(batch(INT32_MAX - 9, 15)) == Duplicate(0, 14, 0)


def test_describe_lists_producers_by_id(partition: Partition) -> None:
    partition.send(0, 5, producer=9, epoch=2, timestamp=77, transactional=True)
    partition.send(3, producer=4, timestamp=78)
    assert partition.states.describe() == [
        ProducerDescription(4, 0, 3, 78, None, None),
        ProducerDescription(9, 2, 4, 77, None, 0),
    ]


# Limits


def test_a_new_producer_beyond_the_limit_sends_again_until_others_have_expired(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_state, "PRODUCERS_MAX", 3)
    for producer in (1, 2, 3):
        partition.send(0, producer=producer, timestamp=DAY_MS * producer)
    message = refused(ErrorCode.NOT_ENOUGH_REPLICAS, partition.states, batch(0, producer=4))
    assert "orders-3, which knows 3 producers already; the limit is 3" in message
    assert partition.send(1, producer=1, timestamp=DAY_MS) == 3, "those that are known go on"
    assert partition.send(1, producer=1) == Duplicate(3, 3, DAY_MS), "and are deduplicated as before"
    assert partition.send(NO_SEQUENCE, producer=-1) == 4, "one that is not idempotent has nothing to remember"

    assert partition.states.expire(DAY_MS * 2 + 1) == [1]
    assert partition.send(0, producer=4) == 5


def test_producers_that_only_repeat_safely_leave_places_for_those_in_transactions(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(producer_state, "PRODUCERS_MAX", 2)
    monkeypatch.setattr(producer_state, "TRANSACTIONAL_RESERVE", 1)
    for producer in (1, 2):
        partition.send(0, producer=producer)
    refused(ErrorCode.NOT_ENOUGH_REPLICAS, partition.states, batch(0, producer=3))
    assert partition.send(0, producer=4, transactional=True) == 2
    message = refused(ErrorCode.NOT_ENOUGH_REPLICAS, partition.states, batch(0, producer=5, transactional=True))
    assert "which knows 3 producers already; the limit is 3" in message
