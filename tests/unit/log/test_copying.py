"""A log that is copied from one broker to another: what a leader gives to followers, and what a follower takes."""

from __future__ import annotations

import errno

import pytest

from semel.errors import ErrorCode, KafkaError
from semel.log.config import LogConfig
from semel.log.partition_log import PartitionLog
from semel.testing.virtual.disk import VirtualDisk
from semel.testing.virtual.disk_faults import DiskFault, Operation
from semel.testing.virtual.page_cache import Unsynced
from semel.wire.records import iterate_headers, parse_header, patch_offset_and_epoch
from tests.logs import NOW_MS, append, batch, batches, end_transaction, open_log, produced, read_all, values
from tests.unit.log.recovery.test_recovery import CONFIG, fill, state
from tests.unit.log.test_directory import Machine

LARGE = 1_000_000


def led(*, config: LogConfig = CONFIG) -> PartitionLog:
    """A leader's log in which readers see nothing."""
    log = open_log(VirtualDisk(), config=config)
    log.on_durable = lambda _: None
    return log


def copied(leader: PartitionLog, follower: PartitionLog, *, max_bytes: int = LARGE) -> None:
    """Copy until the follower has everything, by one fetch after the other."""
    while follower.log_end_offset < leader.log_end_offset:
        found = leader.read_copy(follower.log_end_offset, max_bytes)
        follower.append_copied(memoryview(found.records), now_ms=NOW_MS)


def with_epoch(records: memoryview, base_offset: int, epoch: int) -> memoryview:
    patch_offset_and_epoch(records, 0, base_offset, epoch)
    return records


# Reading


def test_a_follower_reads_up_to_the_log_end_and_consumers_do_not() -> None:
    log = led()
    append(log, batch("a"))
    append(log, batch("b", "c"))
    assert (log.high_watermark, read_all(log)) == (0, b"")
    found = log.read_copy(0, LARGE)
    assert [header.base_offset for _, header in iterate_headers(found.records)] == [0, 1]
    assert (found.high_watermark, found.log_start_offset) == (0, 0)
    assert log.read_copy(3, LARGE).records == b""


@pytest.mark.parametrize("offset", [-1, 4])
def test_a_follower_that_is_outside_of_the_log_is_told(offset: int) -> None:
    log = led()
    append(log, batch("a", "b", "c"))
    with pytest.raises(KafkaError) as caught:
        log.read_copy(offset, LARGE)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("max_bytes", [0, 1, 80, 150, 200, 299, 300, LARGE])
def test_batches_are_given_whole_and_at_least_one(max_bytes: int) -> None:
    log = led(config=LogConfig())
    for number in range(6):
        append(log, batch(f"value {number}"))
    size = parse_header(log.read_copy(0, LARGE).records).size_bytes
    found = log.read_copy(2, max_bytes).records
    headers = list(iterate_headers(found))  # Raises where the last one is not whole.
    assert len(headers) == min(max(1, max_bytes // size), 4)
    assert headers[0][1].base_offset == 2


def test_a_follower_without_records_begins_with_the_batch_that_holds_the_log_start() -> None:
    leader = led()
    append(leader, batch("a", "b"))
    append(leader, batch("c", "d", "e"))
    append(leader, batch("f"))
    leader.advance_high_watermark(6)
    leader.delete_records_before(3)
    found = leader.read_copy(3, LARGE)
    follower = open_log(VirtualDisk(), log_start_offset=parse_header(found.records).base_offset)
    follower.append_copied(memoryview(found.records), now_ms=NOW_MS)
    follower.followed(high_watermark=found.high_watermark, log_start_offset=found.log_start_offset)
    assert (follower.log_start_offset, values(follower)[-2:]) == (3, [(4, b"e"), (5, b"f")])


# Copying


@pytest.mark.parametrize("max_bytes", [1, 500, LARGE])
def test_a_copy_is_the_log__scenario_61(max_bytes: int) -> None:
    leader = open_log(VirtualDisk(), config=CONFIG)
    leader.set_leader_epoch(2)
    fill(leader)
    leader.set_leader_epoch(5)
    end_transaction(leader, committed=False, producer=2)
    append(leader, produced(5, "f", producer=1))
    follower = open_log(VirtualDisk(), config=LogConfig(segment_bytes=900, index_interval_bytes=60))
    copied(leader, follower, max_bytes=max_bytes)
    assert state(follower) == state(leader)


def test_what_fits_the_segment_is_one_write() -> None:
    leader = led(config=LogConfig())
    for number in range(50):
        append(leader, batch(f"value {number}"))
    disk = VirtualDisk()
    follower = open_log(disk)
    before = disk.statistics.writes
    copied(leader, follower)
    assert disk.statistics.writes - before == 1
    assert follower.read_copy(0, LARGE).records == leader.read_copy(0, LARGE).records


def test_segments_are_rolled_by_the_follower_s_own_settings_between_batches() -> None:
    leader = led(config=LogConfig())
    for number in range(50):
        append(leader, batch(f"value {number}"))
    follower = open_log(VirtualDisk(), config=LogConfig(segment_bytes=500))
    copied(leader, follower)
    assert len(follower.segments) > 5
    assert all(segment.size_bytes <= 500 for segment in follower.segments)
    assert values(follower) == [(number, f"value {number}".encode()) for number in range(50)]


def test_what_is_copied_goes_to_the_group_commit() -> None:
    leader, follower = led(), led()
    written: list[PartitionLog] = []
    follower.on_write = written.append
    append(leader, batch("a"))
    copied(leader, follower)
    assert (written, follower.durable_offset, follower.high_watermark) == ([follower], 0, 0)


def test_a_hole_that_compaction_has_left_is_copied() -> None:
    log = led()
    log.append_copied(with_epoch(batch("a"), 3, 0), now_ms=NOW_MS)
    log.append_copied(with_epoch(batch("b"), 9, 0), now_ms=NOW_MS)
    assert log.log_end_offset == 10


@pytest.mark.parametrize(
    ("base_offset", "epoch"),
    [
        pytest.param(1, 4, id="below the end"),
        pytest.param(3, 4, id="in the middle"),
        pytest.param(4, 3, id="old epoch"),
    ],
)
def test_a_batch_that_does_not_follow_is_refused_with_all_that_came_with_it(base_offset: int, epoch: int) -> None:
    log = led()
    log.append_copied(with_epoch(batch("a", "b"), 0, 4), now_ms=NOW_MS)
    bad = bytes(with_epoch(batch("c", "d"), 2, 4)) + bytes(with_epoch(batch("e", "f"), base_offset, epoch))
    with pytest.raises(KafkaError) as caught:
        log.append_copied(memoryview(bad), now_ms=NOW_MS)
    assert (caught.value.code, log.log_end_offset) == (ErrorCode.CORRUPT_MESSAGE, 2)


def test_an_answer_of_an_older_epoch_than_the_log_is_refused() -> None:
    log = led()
    log.append_copied(with_epoch(batch("a"), 0, 4), now_ms=NOW_MS)
    with pytest.raises(KafkaError) as caught:
        log.append_copied(with_epoch(batch("b"), 1, 3), now_ms=NOW_MS)
    assert (caught.value.code, log.log_end_offset) == (ErrorCode.CORRUPT_MESSAGE, 1)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_write_that_the_disk_refuses_leaves_nothing(error: int) -> None:
    leader = led(config=LogConfig())
    fill(leader)
    disk = VirtualDisk()
    follower = open_log(disk)
    follower.append_copied(memoryview(leader.read_copy(0, 1).records), now_ms=NOW_MS)
    before = state(follower)
    disk.fail(DiskFault(Operation.WRITE, "*.log", error=error))
    with pytest.raises(KafkaError) as caught:
        copied(leader, follower)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (follower.offline is None) == (error == errno.ENOSPC)
    disk.repair()
    if follower.offline is None:
        assert state(follower) == before
        copied(leader, follower)
    follower = open_log(disk)
    assert state(follower) == (state(open_full(leader)) if error == errno.ENOSPC else before)


def open_full(log: PartitionLog) -> PartitionLog:
    """The log with everything visible."""
    log.advance_high_watermark(log.log_end_offset)
    return log


def test_of_batches_over_several_segments_those_before_a_refused_write_are_synced() -> None:
    leader = led(config=LogConfig())
    for number in range(10):
        append(leader, batch(f"value {number}"))
    disk = VirtualDisk()
    follower = open_log(disk, config=LogConfig(segment_bytes=200))
    follower.on_durable = lambda _: None
    written: list[PartitionLog] = []
    follower.on_write = written.append
    disk.fail(DiskFault(Operation.CREATE, f"*{4:020d}.log", error=errno.ENOSPC))
    with pytest.raises(KafkaError):
        copied(leader, follower)
    assert (follower.log_end_offset, written) == (4, [follower])


# Offsets


def test_a_follower_s_high_watermark_is_the_leader_s_as_far_as_it_has_come() -> None:
    leader, follower = led(), led()
    append(leader, batch("a", "b"))
    copied(leader, follower)
    follower.followed(high_watermark=5, log_start_offset=1)
    assert (follower.high_watermark, follower.log_start_offset, follower.last_stable_offset) == (2, 1, 2)


def test_a_follower_enters_an_epoch_with_its_first_batch() -> None:
    leader, follower = led(), led()
    leader.set_leader_epoch(3)
    append(leader, batch("a"))
    copied(leader, follower)
    leader.set_leader_epoch(7)
    assert (follower.epochs.latest, leader.epochs.latest) == (3, 7)
    append(leader, batch("b"))
    copied(leader, follower)
    assert follower.epochs.entries == leader.epochs.entries == [(3, 0), (7, 1)]


def test_a_leader_that_wrote_nothing_does_not_claim_its_epoch_when_it_follows() -> None:
    log = led()
    log.set_leader_epoch(3)
    append(log, batch("a"))
    log.set_leader_epoch(4)
    log.follow()
    assert log.epochs.entries == [(3, 0)]
    assert len(batches(log.read_copy(0, LARGE).records)) == 1


# A power cut


def test_holes_that_were_copied_come_back_from_the_journal() -> None:
    machine = Machine()
    log = machine.create("orders")
    log.append_copied(with_epoch(batch("a"), 0, 0), now_ms=NOW_MS)
    machine.commit()
    both = bytes(with_epoch(batch("b"), 5, 0)) + bytes(with_epoch(batch("c"), 9, 2))
    log.append_copied(memoryview(both), now_ms=NOW_MS)
    machine.commit()
    assert log.durable_offset == 10
    machine.directory.kill()
    machine.disk.crash(Unsynced.LOST)
    machine.directory = machine.open()
    assert machine.directory.unavailable == {}
    log = machine.log("orders")
    assert (values(log), log.epochs.entries) == ([(0, b"a"), (5, b"b"), (9, b"c")], [(0, 0), (2, 9)])


def test_a_follower_tells_a_log_start_that_a_crash_leaves() -> None:
    machine = Machine()
    log = machine.create("orders")
    log.append_copied(with_epoch(batch("a", "b", "c"), 0, 0), now_ms=NOW_MS)
    machine.commit()
    log.followed(high_watermark=3, log_start_offset=2)
    assert (log.log_start_offset, log.persisted_log_start_offset) == (2, 0)
    persisting = machine.loop.create_task(machine.directory.persist_log_starts())
    machine.turn()
    machine.workers["semel-folders"].step()
    machine.turn()
    assert (persisting.done(), log.persisted_log_start_offset) == (True, 2)
    before = machine.disk.statistics.changes
    machine.loop.run_until_complete(machine.directory.persist_log_starts())
    assert machine.disk.statistics.changes == before, "nothing moved"
    machine.restart(power_cut=True)
    assert machine.log("orders").log_start_offset == 2
