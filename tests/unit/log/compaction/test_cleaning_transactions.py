"""Compaction and transactions: scenarios 47 to 50, and what KAFKA-8351 and KAFKA-13727 were about."""

from __future__ import annotations

import pytest

from semel.errors import ErrorCode, KafkaError
from semel.log.outcomes import Origin
from semel.wire.control import EndTransactionMarker, encode_marker, parse_marker
from semel.wire.records import Record, build_batch, parse_header
from tests.logs import FOLDER
from tests.unit.log.compaction.bench import Bench, latest
from tests.unit.log.compaction.checks import open_from_batches

HOUR_MS = 3_600_000


def markers(bench: Bench) -> list[int]:
    return [header.base_offset for header in bench.headers() if header.is_control]


def pass_by(bench: Bench, times: int = 1, *, after_ms: int = 0) -> None:
    """More passes, each with something new to clean."""
    for _ in range(times):
        bench.now_ms += after_ms
        bench.put((f"new at {bench.log.log_end_offset}", "x"))
        bench.clean()


# Scenario 47: nothing at or beyond the last stable offset


def test_scenario_47_undecided_records_stay_and_replace_nothing() -> None:
    bench = Bench()
    bench.put(("a", "1"))
    bench.put(("a", "2"))
    bench.roll()
    bench.put(("a", "undecided"), producer=1, transactional=True)
    bench.put(("a", "3"))
    bench.clean()
    assert bench.contents() == [(1, "a", "2"), (2, "a", "undecided"), (3, "a", "3")]
    bench.abort(1)
    bench.clean()
    assert bench.contents() == [(3, "a", "3")]


def test_scenario_47_a_marker_beyond_the_range_decides_records_within_it() -> None:
    """Producer 1 was aborted; its marker lies behind the first record of a transaction that is still open."""
    bench = Bench()
    bench.put(("a", "committed"))
    bench.put(("a", "aborted"), producer=1, transactional=True)
    bench.roll()
    bench.put(("b", "open"), producer=2, transactional=True)
    bench.abort(1)
    bench.put(("c", "1"))
    bench.clean()
    assert bench.contents() == [(0, "a", "committed"), (2, "b", "open"), (4, "c", "1")]
    assert bench.aborted() == [(1, 1, 3)]


# Scenario 48: what goes of transactions, and when


def test_scenario_48_aborted_records_go_and_committed_ones_are_compacted_by_key() -> None:
    bench = Bench()
    bench.put(("a", "1"), ("b", "1"), producer=1, transactional=True)
    bench.put(("a", "2"), ("c", "2"), producer=2, transactional=True)
    bench.abort(2)
    bench.commit(1)
    bench.put(("b", "3"))
    bench.clean()
    assert bench.contents() == [(0, "a", "1"), (6, "b", "3")]
    assert bench.committed() == bench.records()


@pytest.mark.parametrize("committed", [True, False])
def test_scenario_48_a_marker_stays_until_its_records_are_gone_and_then_until_the_delete_horizon(
    committed: bool,
) -> None:
    bench = Bench(settings={"delete_retention_ms": HOUR_MS})
    bench.put(("a", "1"), producer=1, transactional=True)
    bench.end(1, committed=committed)
    bench.put(("a", "2"))
    # Another epoch of the producer, so that nothing of the first is needed for its state.
    bench.put(("p", "1"), producer=1, epoch=1)
    bench.clean()
    assert [offset for offset, _, _ in bench.contents()] == [2, 3]
    assert markers(bench) == [1], "the records were still there when the pass came by"
    assert bench.headers()[0].delete_horizon_ms is None
    pass_by(bench)
    assert markers(bench) == [1]
    horizon_ms = bench.headers()[0].delete_horizon_ms
    assert horizon_ms == bench.now_ms + HOUR_MS
    assert parse_marker(bench.batches()[0][0]) == EndTransactionMarker(committed=committed, coordinator_epoch=0)
    pass_by(bench, after_ms=HOUR_MS - 1)
    assert markers(bench) == [1]
    assert bench.headers()[0].delete_horizon_ms == horizon_ms
    pass_by(bench, after_ms=1)
    assert markers(bench) == []
    assert bench.aborted() == []


def test_scenario_48_a_committed_marker_stays_as_long_as_one_record_of_its_transaction() -> None:
    bench = Bench(settings={"delete_retention_ms": 0})
    bench.put(("a", "1"), producer=1, transactional=True)
    bench.put(("b", "1"), producer=1, transactional=True)
    bench.commit(1)
    bench.put(("b", "2"), producer=1, epoch=1)
    bench.clean()
    pass_by(bench, 3)
    assert markers(bench) == [2]
    assert bench.contents()[0] == (0, "a", "1")
    bench.put(("a", "2"))
    bench.clean()
    pass_by(bench, 2)
    assert markers(bench) == []


def test_scenario_48_a_producer_that_wrote_again_is_not_hidden_by_an_old_abort() -> None:
    """The entry goes with its marker: without the marker it would hide all that the producer wrote afterwards."""
    bench = Bench(settings={"delete_retention_ms": 0})
    bench.put(("a", "aborted"), producer=1, transactional=True)
    bench.abort(1)
    bench.put(("b", "committed"), producer=1, transactional=True)
    bench.commit(1)
    for _ in range(4):
        pass_by(bench)
        assert [entry[2] for entry in bench.aborted()] == [offset for offset in markers(bench) if offset == 1]
        assert latest(bench.committed())[b"b"] == b"committed"
    assert bench.aborted() == []


def test_scenario_48_the_last_batch_of_a_producer_stays_as_a_header_and_its_next_sequence_is_accepted() -> None:
    bench = Bench()
    bench.put(("a", "1"), ("b", "1"), producer=1)
    bench.put(("a", "2"), ("b", "2"), producer=1)
    bench.put(("a", "3"), ("b", "3"))
    before = bench.log.describe_producers()
    bench.clean()
    header = bench.headers()[0]
    assert (header.base_offset, header.last_offset, header.record_count) == (2, 3, 0)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (1, 0, 2)
    open_from_batches(bench)
    assert bench.log.describe_producers() == before
    retry = bench.log.append(
        memoryview(bytearray(bench.sent[1][1].data)), now_ms=bench.now_ms, origin=Origin.COORDINATOR
    )
    assert (retry.duplicate, retry.base_offset) == (True, 2)
    assert bench.put(("a", "4"), producer=1).base_offset == 6
    bench.sequences[1, 0] += 1
    with pytest.raises(KafkaError) as refused:
        bench.put(("a", "5"), producer=1)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_scenario_48_a_producer_that_has_expired_needs_nothing() -> None:
    bench = Bench()
    bench.put(("a", "1"), producer=1)
    bench.put(("a", "2"))
    bench.log.producers.expire(bench.now_ms + 10**9)
    bench.clean()
    assert [header.base_offset for header in bench.headers()] == [1]


def test_scenario_48_the_marker_of_a_producer_that_is_known_by_nothing_else_stays_with_its_coordinator() -> None:
    """With transactions V2 the marker raises the epoch: it is all that fences the epochs before."""
    bench = Bench(settings={"delete_retention_ms": 0})
    bench.put(("a", "1"), producer=1, transactional=True)
    bench.commit(1, epoch=1, coordinator_epoch=7)
    bench.put(("a", "2"))
    before = bench.log.describe_producers()
    bench.clean()
    pass_by(bench, 3)
    assert markers(bench) == [1]
    bench.disk.kill()
    for name in bench.disk.list(FOLDER):
        if name.endswith(".snapshot"):
            bench.disk.remove(f"{FOLDER}/{name}")
    bench.open()
    assert bench.log.describe_producers() == before
    assert before[0].coordinator_epoch == 7
    with pytest.raises(KafkaError) as fenced:
        bench.put(("a", "zombie"), producer=1, epoch=0, transactional=True)
    assert fenced.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_scenario_48_sequences_are_not_confused_when_an_emptied_batch_is_removed_and_its_numbers_come_again() -> None:
    """The producer starts over at sequence 0 in a new epoch; the header kept for the old one goes."""
    bench = Bench()
    bench.put(("a", "1"), producer=1)
    bench.put(("a", "2"))
    bench.clean()
    assert [header.record_count for header in bench.headers()] == [0, 1]
    bench.put(("a", "3"), producer=1, epoch=1)
    bench.clean()
    assert [(header.base_offset, header.producer_epoch) for header in bench.headers()] == [(2, 1)]
    bench.disk.kill()
    bench.open()
    assert bench.put(("a", "4"), producer=1, epoch=1).base_offset == 3


def test_scenario_48_an_emptied_transactional_batch_opens_no_transaction_after_a_start() -> None:
    bench = Bench(settings={"delete_retention_ms": 0})
    bench.put(("a", "1"), producer=1, transactional=True)
    bench.commit(1)
    bench.put(("a", "2"))
    bench.clean()
    pass_by(bench, 3)
    assert markers(bench) == []
    assert bench.headers()[0].is_transactional
    assert bench.headers()[0].record_count == 0
    bench.disk.kill()
    for name in bench.disk.list(FOLDER):
        if name.endswith(".snapshot"):
            bench.disk.remove(f"{FOLDER}/{name}")
    bench.open()
    assert bench.log.producers.open_transactions == []
    assert bench.log.last_stable_offset == bench.log.log_end_offset


# Scenario 49: transactions across segments, groups and passes


def spanning(*, committed: bool) -> Bench:
    """Records of producer 1 in three segments, too large to be merged, its marker in a fourth."""
    bench = Bench(settings={"segment_bytes": 400})
    for number in range(3):
        bench.put((f"t{number}", f"{number}"), ("a", f"t{number}"), producer=1, transactional=True)
        bench.put((f"filler {number}", "x" * 250))
        bench.roll()
    bench.end(1, committed=committed)
    bench.put(("filler", "x" * 250))
    bench.roll()
    return bench


@pytest.mark.parametrize("committed", [True, False])
def test_scenario_49_a_transaction_across_segments_and_groups_keeps_its_outcome(committed: bool) -> None:
    bench = spanning(committed=committed)
    expected = latest(bench.committed())
    for _ in range(4):
        bench.clean()
        assert latest(bench.committed()) == expected
        assert latest(bench.records()) == expected
        bench.put((f"new at {bench.log.log_end_offset}", "x" * 250))
        bench.put(("b", "x" * 250))
        expected = latest(bench.committed())


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("keys_max", [1, 2, 3, 4, 5, 6, 7])
def test_scenario_49_a_pass_that_ends_within_a_transaction_keeps_its_outcome(committed: bool, keys_max: int) -> None:
    """KAFKA-13727: behind the point where the map was full, everything is copied, its index entries too."""
    bench = spanning(committed=committed)
    bench.put(("t0", "later"), producer=3, transactional=True)
    bench.put(("t1", "later"), producer=4, transactional=True)
    bench.abort(3)
    bench.abort(4)
    expected = latest(bench.committed())
    cleaner = bench.cleaner()
    cleaner._map_entries_max = keys_max
    while bench.log.recovery_point == 0 or cleaner.cleanable(bench.log, bench.now_ms) is not None:
        bench.clean(cleaner)
        assert latest(bench.committed()) == expected
        again = bench.copy()
        assert latest(again.committed()) == expected
        assert again.aborted() == bench.aborted()


def test_scenario_49_aborted_records_beyond_the_map_are_not_read_although_those_before_are_gone() -> None:
    """The record at 0 goes in the first pass; the one at 2 is copied, and must still be known as aborted."""
    bench = Bench()
    bench.put(("a", "aborted"), producer=1, transactional=True)
    bench.put(("k1", "1"))
    bench.put(("b", "aborted"), producer=1, transactional=True)
    bench.put(("k2", "1"))
    bench.put(("k3", "1"))
    bench.abort(1)
    cleaner = bench.cleaner()
    cleaner._map_entries_max = 1
    bench.clean(cleaner)
    assert cleaner.first_dirty_offset(bench.log) == 3
    assert set(latest(bench.committed())) == {b"k1", b"k2", b"k3"}
    assert bench.aborted() == [(1, 0, 5)]


def test_scenario_49_the_index_of_a_merged_segment_holds_the_entries_of_all_of_them() -> None:
    bench = Bench()
    for producer in range(3):
        bench.put((f"{producer}", "aborted"), producer=producer, transactional=True)
        bench.put((f"{producer}", "plain"))
        bench.abort(producer)
        bench.roll()
    bench.clean()
    assert len(bench.log.segments) == 2
    assert bench.aborted() == [(0, 0, 2), (1, 3, 5), (2, 6, 8)]
    assert bench.copy().aborted() == bench.aborted()


def test_scenario_49_an_old_transaction_index_does_not_outlive_its_segment() -> None:
    """The new segment has no aborted transaction, the old one had: the file must be replaced all the same."""
    bench = Bench(settings={"delete_retention_ms": 0})
    bench.put(("a", "aborted"), producer=1, transactional=True)
    bench.abort(1)
    bench.put(("b", "1"), producer=1, transactional=True)
    bench.commit(1)
    bench.put(("c", "1"), producer=1, epoch=1)
    bench.clean()
    pass_by(bench, 2)
    assert bench.aborted() == []
    assert bench.copy().aborted() == []
    assert latest(bench.copy().committed()) == latest(bench.committed())


# Scenario 50: user keys that equal those of control records


@pytest.mark.parametrize("committed", [True, False])
def test_scenario_50_a_users_key_that_equals_a_markers_key_is_not_confused_with_it(committed: bool) -> None:
    control = EndTransactionMarker(committed=committed, coordinator_epoch=0)
    key = encode_marker(control)[0].decode()
    bench = Bench()
    bench.put((key, "1"))
    bench.put(("a", "1"), producer=1, transactional=True)
    bench.end(1, committed=committed)
    bench.put(("b", "1"), producer=2, transactional=True)
    bench.end(2, committed=committed)
    bench.put((key, "2"))
    expected = latest(bench.committed())
    bench.clean()
    assert latest(bench.committed()) == latest(bench.records()) == expected
    assert markers(bench) == [2, 4], "neither the user's record nor the other marker replaces a marker"
    assert bench.contents()[-1] == (5, key, "2")


def test_scenario_50_a_marker_does_not_replace_a_users_record() -> None:
    key = encode_marker(EndTransactionMarker(committed=True, coordinator_epoch=0))[0].decode()
    bench = Bench()
    bench.put((key, "1"))
    bench.put(("a", "1"), producer=1, transactional=True)
    bench.commit(1)
    bench.clean()
    assert bench.contents()[0] == (0, key, "1")


# Small things


def test_a_control_record_of_another_type_stays() -> None:
    bench = Bench(settings={"delete_retention_ms": 0})
    bench.put(("a", "1"), producer=1, transactional=True)
    data = bytearray(_marker_of_type(2))
    bench.log.append(memoryview(data), now_ms=0, origin=Origin.COORDINATOR)
    bench.commit(1)
    bench.put(("a", "2"), producer=1, epoch=1)
    bench.clean()
    pass_by(bench, 3)
    assert markers(bench) == [1]


def _marker_of_type(control_type: int) -> bytes:
    record = Record(0, 0, b"\0\0" + control_type.to_bytes(2, "big"), b"")
    return build_batch([record], producer_id=5, producer_epoch=0, is_transactional=True, is_control=True)


def test_a_marker_is_stamped_without_losing_its_place() -> None:
    bench = Bench()
    bench.put(("a", "1"), producer=1, transactional=True)
    before = parse_header(bench.batches()[0][0])
    bench.commit(1)
    bench.put(("a", "2"), producer=1, epoch=1)
    marker = bench.headers()[1]
    bench.clean()
    pass_by(bench)
    stamped = next(header for header in bench.headers() if header.is_control)
    assert stamped.delete_horizon_ms is not None
    same = ("base_offset", "last_offset_delta", "max_timestamp", "producer_id", "producer_epoch", "is_transactional")
    assert [getattr(stamped, name) for name in same] == [getattr(marker, name) for name in same]
    assert before.producer_id == stamped.producer_id
