"""What compaction found out about the log beneath it: kept here as tests."""

from __future__ import annotations

from random import Random

import pytest

from semel.errors import ErrorCode, KafkaError
from semel.log.config import CleanupPolicy
from semel.log.disk import read_file
from semel.log.outcomes import Origin
from semel.log.retention import apply_retention
from semel.log.segments.time_index import TimeIndex
from semel.testing.virtual.disk import VirtualDisk
from tests.unit.log.compaction.bench import Bench


@pytest.mark.parametrize("number", range(3))
def test_a_repeated_batch_that_compaction_dropped_is_still_a_duplicate_after_a_start(number: int) -> None:
    """Scenarios 2 and 48: the window is refilled from the batches that are left, and they have gaps between them."""
    bench = Bench()
    bench.put(("kept", "1"), producer=1)
    bench.put(("a", "1"), producer=1)
    bench.put(("a", "2"), producer=1)
    bench.put(("a", "3"), producer=1)
    bench.clean()
    bench.disk.kill()
    bench.open()
    retry = memoryview(bytearray(bench.sent[1][number].data))
    if number == 0:
        appended = bench.log.append(retry, now_ms=bench.now_ms, origin=Origin.COORDINATOR)
        assert (appended.duplicate, appended.base_offset) == (True, 0)
        return
    with pytest.raises(KafkaError) as refused:
        bench.log.append(retry, now_ms=bench.now_ms, origin=Origin.COORDINATOR)
    assert refused.value.code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER


def test_a_power_cut_after_retention_never_brings_back_aborted_records_as_committed() -> None:
    """The name of a segment may survive, that of its transaction index not, unless a sync stands between them."""
    for seed in range(60):
        bench = Bench(
            disk=VirtualDisk(Random(seed)),
            settings={"cleanup_policy": frozenset({CleanupPolicy.DELETE}), "retention_ms": 1000},
        )
        bench.put(("a", "aborted"), producer=7, transactional=True)
        bench.roll()
        bench.abort(7)
        bench.roll()
        bench.checkpoint()
        bench.now_ms += 10_000
        bench.put(("b", "new"))
        assert apply_retention(bench.log, bench.now_ms) == 2
        bench.disk.crash()
        bench.open()
        assert not any(read.value == b"aborted" for read in bench.committed()), f"seed {seed}"


def test_a_segment_closed_with_nothing_written_afterwards_gets_its_last_time_index_entry_all_the_same() -> None:
    bench = Bench()
    bench.put(("a", "1"), timestamp=1000)
    bench.checkpoint()
    bench.roll()
    bench.put(("b", "1"), timestamp=2000)
    bench.checkpoint()
    closed = bench.log.segments.first
    assert TimeIndex.load(read_file(bench.disk, closed.path(".timeindex")), 0).last == (1000, 0)


def test_a_log_whose_records_are_all_deleted_is_not_read_again_by_a_start() -> None:
    bench = Bench()
    bench.put(("a", "1"), producer=1)
    bench.put(("b", "1"), producer=1)
    bench.roll()
    bench.delete_before(2)
    bench.checkpoint()
    before = bench.log.describe_producers()
    bench.disk.kill()
    bench.open()
    assert (bench.log.recovery_point, bench.log.log_start_offset) == (2, 2)
    assert bench.log.describe_producers() == before
