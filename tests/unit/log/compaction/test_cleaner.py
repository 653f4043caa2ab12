"""The cleaner as the broker drives it: choosing, slices, aborting, failing, remembering."""

from __future__ import annotations

import errno
import threading
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest

from semel.log.compaction.cleaner import RETRY_AFTER_MS, LogCleaner
from semel.log.compaction.cleaner_offsets import CLEANER_OFFSET_FILE, CleanerOffsets
from semel.log.compaction.cleaning import CleaningPass
from semel.log.compaction.pace import SLICE_COST
from semel.log.compaction.rewriting import Rewriting
from semel.log.config import CleanupPolicy
from semel.log.disk import replace_file
from semel.log.durability.checkpoints import read_offsets
from semel.log.partition_log import PartitionLog
from semel.log.recovery.loading import load_log
from semel.log.retention import apply_retention, below_start_steps
from semel.log.segments.segment import Segment
from semel.testing.virtual.clock import ManualClock
from semel.testing.virtual.disk_faults import DiskFault, Operation
from semel.types import TopicPartition
from semel.wire.records import Codec
from tests.executed_lines import lines_executed
from tests.logs import FOLDER, ORDERS, ORDERS_ID, StepWorker
from tests.unit.log.compaction.bench import COMPACT_DELETE, DATA, Bench, OneLog, latest

CHECKPOINT = f"{DATA}/{CLEANER_OFFSET_FILE}"


def dirty(**settings: object) -> Bench:
    bench = Bench(settings={"segment_bytes": 300, **settings})
    for number in range(30):
        bench.put((f"{number % 4}", f"{number}"))
    bench.roll()
    bench.checkpoint()
    return bench


def leftovers(bench: Bench) -> list[str]:
    return [name for name in bench.disk.list(FOLDER) if name.endswith((".cleaned", ".swap"))]


def run(cleaner: LogCleaner, bench: Bench) -> int:
    return sum(1 for _ in cleaner.clean(bench.log, bench.now_ms))


# Choosing


def test_a_dirty_log_is_chosen_cleaned_and_not_chosen_again() -> None:
    bench = dirty()
    cleaner = bench.cleaner()
    assert cleaner.choose(bench.now_ms) is bench.log
    run(cleaner, bench)
    assert cleaner.choose(bench.now_ms) is None
    assert [offset for offset, _, _ in bench.contents()] == [26, 27, 28, 29]


def test_a_log_that_is_not_compacted_is_not_chosen() -> None:
    bench = dirty(cleanup_policy=frozenset({CleanupPolicy.DELETE}))
    assert bench.cleaner().choose(bench.now_ms) is None


def test_a_log_that_is_offline_is_not_chosen() -> None:
    bench = dirty()
    bench.log.go_offline("for a test")
    assert bench.cleaner().choose(bench.now_ms) is None


def test_a_log_is_not_chosen_while_a_pass_over_it_runs() -> None:
    bench = dirty()
    cleaner = bench.cleaner()
    steps = cleaner.clean(bench.log, bench.now_ms)
    next(steps)
    assert cleaner.choose(bench.now_ms) is None
    assert run(cleaner, bench) == 0, "nor does a second pass begin"


def test_choosing_closes_a_segment_that_has_waited_too_long() -> None:
    bench = Bench(settings={"max_compaction_lag_ms": 1000})
    bench.put(("a", "1"))
    bench.put(("a", "2"))
    cleaner = bench.cleaner()
    bench.now_ms += 1001
    assert cleaner.choose(bench.now_ms) is None
    assert len(bench.log.segments) == 2
    bench.checkpoint()
    assert cleaner.choose(bench.now_ms) is bench.log
    run(cleaner, bench)
    assert bench.contents() == [(1, "a", "2")]


def test_a_segment_that_cannot_be_closed_does_not_keep_the_others_from_being_chosen() -> None:
    bench = Bench(settings={"segment_ms": 1000})
    bench.put(("a", "1"))
    bench.disk.fail(DiskFault(Operation.CREATE, error=errno.ENOSPC, times=None))
    assert bench.cleaner().choose(bench.now_ms + 1001) is None


def test_a_log_whose_pass_ends_in_an_unexpected_error_is_not_chosen_again_at_once() -> None:
    """Otherwise it would be the dirtiest for ever, and no other log would be compacted."""
    bench = dirty()
    cleaner = bench.cleaner()

    class OutOfMemory(CleaningPass):
        def rewriting(self, group: list[Segment]) -> Rewriting:
            raise MemoryError

    cleaner.cleaning_pass = OutOfMemory  # type: ignore[misc]
    with pytest.raises(MemoryError):
        run(cleaner, bench)
    assert cleaner.choose(bench.now_ms + RETRY_AFTER_MS - 1) is None
    assert cleaner.choose(bench.now_ms + RETRY_AFTER_MS) is bench.log
    assert leftovers(bench) == []


# Slices


def test_a_pass_takes_many_small_slices_and_readers_and_writers_get_their_turn_at_each() -> None:
    bench = Bench(settings={"segment_bytes": 20_000})
    for number in range(60):
        bench.put(*((f"{key}", f"{number}") for key in range(100)), producer=1)
    bench.roll()
    bench.checkpoint()
    cleaner = bench.cleaner()
    expected = latest(bench.records())
    slices = 0
    for _ in cleaner.clean(bench.log, bench.now_ms):
        slices += 1
        if slices % 5 == 0:
            bench.put((f"new {slices}", "written meanwhile"), producer=1)
            expected[f"new {slices}".encode()] = b"written meanwhile"
        assert latest(bench.records()) == expected
    assert slices >= 2 * 6000 // SLICE_COST
    assert cleaner.statistics.records_dropped == 59 * 100


def test_no_slice_of_a_pass_takes_longer_because_there_are_very_many_producers_and_aborted_transactions() -> None:
    bench = Bench()
    for producer in range(2000):
        bench.put(("a", str(producer)), producer=producer, transactional=True)
        bench.end(producer, committed=False)
    bench.roll()
    bench.checkpoint()
    slices = bench.cleaner().clean(bench.log, bench.now_ms)
    costs: list[int] = []
    while len(costs) < 8:  # The producers and the transactions are collected first.
        costs.append(lines_executed(lambda: next(slices), within="semel/log"))

    assert max(costs) < 20_000


def test_no_slice_of_a_pass_changes_many_files_however_many_segments_become_one() -> None:
    bench = Bench(settings={"segment_bytes": 2**20})
    for number in range(40):
        bench.put((f"{number % 4}", f"{number}"))
        bench.roll()
    bench.checkpoint()
    changes = [bench.disk.statistics.changes]
    changes += (bench.disk.statistics.changes for _ in bench.cleaner().clean(bench.log, bench.now_ms))

    assert max(after - before for before, after in pairwise(changes)) <= 25
    assert len(bench.log.segments) == 6  # Five of eight segments each, and the active one.
    bench.now_ms += 10**9
    bench.put(("0", "dirty"))
    bench.clean()
    assert len(bench.log.segments) == 2
    names = {name.partition(".")[0] for name in bench.disk.list(FOLDER) if name.endswith((".log", ".index"))}
    assert names == {f"{segment.base_offset:020d}" for segment in bench.log.segments}


def test_a_batch_with_very_many_records_is_not_made_again_in_one_slice() -> None:
    bench = Bench(settings={"segment_bytes": 2**24})
    bench.put(*((f"{number % 19_999}", "") for number in range(20_000)), codec=Codec.GZIP)
    bench.roll()
    bench.checkpoint()
    worker = StepWorker()
    slices = bench.cleaner(worker=worker).clean(bench.log, bench.now_ms)
    costs: list[int] = []
    yielded: list[object] = [None]
    while yielded[-1] is None:
        costs.append(lines_executed(lambda: yielded.append(next(slices, "ended")), within="semel"))
        worker.stop()

    assert max(costs) < 200_000  # A slice of decoded records takes half of that.
    assert len(bench.contents()) == 19_999


def test_syncs_go_to_a_worker_and_the_pass_waits_for_them() -> None:
    bench = dirty()
    worker = StepWorker()
    cleaner = bench.cleaner(worker=worker)
    steps = cleaner.clean(bench.log, bench.now_ms)
    syncs = bench.disk.statistics.syncs
    for _ in range(20):
        next(steps)
    assert bench.disk.statistics.syncs == syncs
    assert len(worker.jobs) == 1, "it waits for the first before it asks for another"
    for _ in steps:
        while worker.jobs:
            worker.step()
    assert [offset for offset, _, _ in bench.contents()] == [26, 27, 28, 29]
    assert read_offsets(bench.disk, CHECKPOINT) == {ORDERS: 30}


def test_a_sync_that_fails_on_the_worker_gives_the_pass_up() -> None:
    bench = dirty()
    worker = StepWorker()
    cleaner = bench.cleaner(worker=worker)
    bench.disk.fail(DiskFault(Operation.SYNC))
    for _ in cleaner.clean(bench.log, bench.now_ms):
        while worker.jobs:
            worker.step()
    assert (cleaner.statistics.passes, cleaner.statistics.passes_given_up) == (0, 1)
    assert leftovers(bench) == []
    assert len(bench.contents()) == 30


# Dropping a pass


@pytest.mark.parametrize("slices", [1, 3, 8, 12])
def test_a_pass_that_is_aborted_leaves_nothing_behind_and_the_log_as_it_was(slices: int) -> None:
    bench = dirty()
    cleaner = bench.cleaner()
    expected = latest(bench.records())
    steps = cleaner.clean(bench.log, bench.now_ms)
    for _ in range(slices):
        next(steps)
    cleaner.abort(bench.log)
    assert leftovers(bench) == []
    assert list(steps) == []
    assert latest(bench.records()) == expected
    assert cleaner.statistics.passes_given_up == 1
    assert cleaner.choose(bench.now_ms) is bench.log
    run(cleaner, bench)
    assert latest(bench.records()) == expected


def test_a_pass_that_nobody_drives_any_more_is_tidied_up_by_the_next_one() -> None:
    bench = dirty()
    cleaner = bench.cleaner()
    steps = cleaner.clean(bench.log, bench.now_ms)
    while not leftovers(bench):
        next(steps)
    del steps
    run(cleaner, bench)
    assert leftovers(bench) == []
    assert len(bench.contents()) == 4


def test_a_pass_ends_when_its_log_goes_offline() -> None:
    bench = dirty()
    cleaner = bench.cleaner()
    steps = cleaner.clean(bench.log, bench.now_ms)
    next(steps)
    bench.log.go_offline("the topic was deleted")
    assert list(steps) == []
    assert cleaner.statistics.passes_given_up == 1


@pytest.mark.parametrize("slices", range(1, 40, 2))
def test_segments_that_retention_removes_during_a_pass_do_not_come_back(slices: int) -> None:
    bench = Bench(settings={"segment_bytes": 300, "cleanup_policy": COMPACT_DELETE, "retention_ms": 10_000})
    for number in range(30):
        bench.put((f"{number % 20}", f"{number}"))
        bench.now_ms += 1000
    bench.roll()
    bench.checkpoint()
    cleaner = bench.cleaner()
    for number, _ in enumerate(cleaner.clean(bench.log, bench.now_ms), 1):
        if number == slices:
            apply_retention(bench.log, bench.now_ms)
            start = bench.log.log_start_offset
            expected = latest(bench.records())
    assert (cleaner.statistics.passes, cleaner.statistics.passes_given_up) == (1, 0)
    apply_retention(bench.log, bench.now_ms)
    if number >= slices:
        assert bench.log.log_start_offset >= start > 0
        assert latest(bench.records()) == expected
    assert leftovers(bench) == []
    names = [name for name in bench.disk.list(FOLDER) if name.endswith(".log")]
    assert names == [f"{segment.base_offset:020d}.log" for segment in bench.log.segments]
    assert latest(bench.copy().records()) == latest(bench.records())


def with_deleted_key(**settings: object) -> Bench:
    """Key ``a`` has a value in the second segment and a tombstone in a later one; two segments may become one."""
    bench = Bench(settings={"segment_bytes": 150, "delete_retention_ms": 1000, **settings})
    for key in ("x", "y", "a", "k", "l", "m", "n", "o"):
        bench.put((key, "1"))
    bench.put(("a", None))
    bench.put(("z", "1"))
    bench.roll()
    bench.checkpoint()
    bench.settings["segment_bytes"] = 450
    return bench.copy()


def clean_again(bench: Bench, cleaner: LogCleaner) -> None:
    """Some more passes, each after the time of tombstones and of a pass that failed."""
    for number in range(3):
        bench.now_ms += RETRY_AFTER_MS
        bench.put(("q", f"{number}"))
        bench.clean(cleaner)


@pytest.mark.parametrize("slices", range(10))
def test_a_deleted_key_stays_deleted_if_segments_are_removed_during_the_pass(slices: int) -> None:
    bench = with_deleted_key(cleanup_policy=COMPACT_DELETE, retention_ms=None)
    cleaner = bench.cleaner()
    for number, _ in enumerate(cleaner.clean(bench.log, bench.now_ms)):
        if number == slices:
            bench.delete_before(2)
            list(below_start_steps(bench.log))
    clean_again(bench, cleaner)
    assert b"a" not in latest(bench.records())


class OutgrowsItsSegments(CleaningPass):
    """A group whose new segment would be too large is left as it is (KAFKA-20036)."""

    def rewriting(self, group: list[Segment]) -> Rewriting:
        made = super().rewriting(group)
        if len(group) > 1:
            made._size_bytes_max = 100
        return made


def test_a_deleted_key_stays_deleted_if_a_group_outgrows_one_segment() -> None:
    bench = with_deleted_key()
    cleaner = bench.cleaner()
    cleaner.cleaning_pass = OutgrowsItsSegments
    run(cleaner, bench)
    assert (b"a", b"1") in [(read.key, read.value) for read in bench.records()]
    assert cleaner.choose(bench.now_ms + RETRY_AFTER_MS - 1) is None, "it would end like the last pass"
    cleaner.cleaning_pass = CleaningPass
    clean_again(bench, cleaner)
    assert b"a" not in latest(bench.records())


# Failing


def test_a_full_disk_gives_the_pass_up_for_a_while_and_costs_nothing_else() -> None:
    bench = dirty()
    cleaner = bench.cleaner()
    bench.disk.capacity_bytes = bench.disk.used_bytes() + 50
    run(cleaner, bench)
    assert cleaner.statistics.passes_given_up == 1
    assert leftovers(bench) == []
    assert bench.log.offline is None
    assert len(bench.contents()) == 30
    assert cleaner.choose(bench.now_ms + RETRY_AFTER_MS - 1) is None
    bench.disk.capacity_bytes = None
    assert cleaner.choose(bench.now_ms + RETRY_AFTER_MS) is bench.log
    run(cleaner, bench)
    assert len(bench.contents()) == 4


@pytest.mark.parametrize("skip", range(4))
@pytest.mark.parametrize("operation", [Operation.RENAME, Operation.REMOVE, Operation.SYNC_DIRECTORY])
def test_a_swap_that_the_disk_refuses_in_the_middle_puts_the_log_offline_and_a_start_brings_it_back(
    operation: Operation, skip: int
) -> None:
    bench = dirty(segment_bytes=150)
    bench.settings["segment_bytes"] = 300  # so that two become one
    bench = bench.copy()
    expected = latest(bench.records())
    bench.disk.fail(DiskFault(operation, f"{FOLDER}*", skip=skip))
    run(bench.cleaner(), bench)
    # A folder is synced once for each group before its commit point: there a failure gives the pass up and no more.
    before_commit = operation is Operation.SYNC_DIRECTORY and skip in (0, 3)
    # The old log file is removed first. What is then left of the old segment does no harm.
    after_swap = operation is Operation.REMOVE and skip > 0
    assert (bench.log.offline is None) is (before_commit or after_swap)
    bench.disk.repair()
    bench.disk.crash()
    bench.open()
    assert latest(bench.records()) == expected
    assert leftovers(bench) == []


# Remembering


def test_the_first_dirty_offset_is_read_again_after_a_start() -> None:
    bench = dirty()
    run(bench.cleaner(), bench)
    assert read_offsets(bench.disk, CHECKPOINT) == {ORDERS: 30}
    assert bench.cleaner().first_dirty_offset(bench.log) == 30


def test_a_first_dirty_offset_beyond_the_log_is_that_of_another_log() -> None:
    bench = dirty()
    replace_file(bench.disk, CHECKPOINT, b"0\n1\norders 0 31\n")
    cleaner = bench.cleaner()
    assert cleaner.first_dirty_offset(bench.log) == 0
    bench.put(("a", "1"))
    bench.put(("a", "2"))
    assert cleaner.first_dirty_offset(bench.log) == 0, "also once the log has grown past it"
    assert bench.cleaner().first_dirty_offset(bench.log) == 0, "also at the next start"


def test_a_damaged_checkpoint_costs_a_pass_and_no_more() -> None:
    bench = dirty()
    replace_file(bench.disk, CHECKPOINT, b"0\n7\norders 0")
    assert bench.cleaner().choose(bench.now_ms) is bench.log


def test_a_topic_made_again_under_its_name_begins_anew() -> None:
    bench = dirty()
    logs = {ORDERS: bench.log}
    offsets = CleanerOffsets(DATA, bench.disk, logs)
    assert not offsets.load()
    cleaner = LogCleaner(OneLog(bench.disk, logs), ManualClock(bench.now_ms), offsets=offsets)
    run(cleaner, bench)
    assert read_offsets(bench.disk, CHECKPOINT) == {ORDERS: 30}
    bench.disk.remove_folder(FOLDER)
    bench.disk.make_folder(FOLDER)
    logs[ORDERS] = made_again = load_log(
        bench.disk, FOLDER, topic_partition=ORDERS, topic_id=UUID(int=8), config=bench.config, now_ms=bench.now_ms
    )
    assert made_again.topic_id != ORDERS_ID
    cleaner.choose(bench.now_ms)
    assert cleaner.first_dirty_offset(made_again) == 0
    offsets.forget_deleted()
    assert read_offsets(bench.disk, CHECKPOINT) == {}


def test_the_line_of_a_log_that_is_deleted_while_the_file_is_written_is_gone_before_a_new_log_is_made() -> None:
    """Otherwise a start would take it for the line of the new log of this name."""
    bench = dirty()

    class Logs(dict[TopicPartition, PartitionLog]):
        def get(self, key: TopicPartition, default: Any = None) -> Any:
            found = super().get(key, default)
            if threading.current_thread() is threading.main_thread() and self.pop(key, None) is not None:
                forgetting.start()
                forgetting.join(0.1)  # Either it ends at once, or it waits for the end of this write.
            return found

    logs = Logs()
    offsets = CleanerOffsets(DATA, bench.disk, logs)
    forgetting = threading.Thread(target=offsets.forget_deleted)
    logs[ORDERS] = bench.log
    offsets.reached(bench.log, 30)
    offsets.write()
    forgetting.join()
    assert read_offsets(bench.disk, CHECKPOINT) == {}


def test_statistics_say_what_a_pass_did() -> None:
    bench = dirty()
    read = bench.log.size_bytes
    cleaner = bench.cleaner()
    run(cleaner, bench)
    statistics = cleaner.statistics
    assert (statistics.passes, statistics.records_kept, statistics.records_dropped) == (1, 4, 26)
    assert statistics.bytes_read == read
    assert statistics.bytes_freed == read - bench.log.size_bytes
    assert statistics.map_entries_max == 4


def test_a_checkpoint_that_cannot_be_written_is_written_by_the_next_pass(caplog: pytest.LogCaptureFixture) -> None:
    bench = dirty()
    cleaner = bench.cleaner()
    bench.disk.fail(DiskFault(Operation.RENAME, f"{CHECKPOINT}*"))
    run(cleaner, bench)
    assert "could not be compacted" in caplog.text
    assert len(bench.contents()) == 4
    assert cleaner.first_dirty_offset(bench.log) == 30
