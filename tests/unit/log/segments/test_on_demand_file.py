"""Closed segments hold no open file, and are opened while they are read."""

from __future__ import annotations

import pytest

from semel.log.config import LogConfig
from semel.log.durability.checkpointing import prepare_checkpoint
from semel.log.partition_log import PartitionLog
from semel.log.recovery.truncation import truncate_to
from semel.testing.virtual.disk import VirtualDisk
from tests.logs import NOW_MS, append, batch, open_log, values
from tests.unit.log.recovery.test_recovery import carry_out


def test_closed_segments_hold_no_descriptor_and_can_be_read() -> None:
    disk = VirtualDisk()
    log = open_log(disk, config=LogConfig(segment_bytes=200))
    for number in range(50):
        append(log, batch(f"value {number}" + "x" * 50))
    assert len(log.segments) > 20
    carry_out(disk, prepare_checkpoint(log))
    assert disk.statistics.open_files == 1
    assert [offset for offset, _ in values(log)] == list(range(50))
    assert disk.statistics.open_files == 1
    again = open_log(disk, config=LogConfig(segment_bytes=200), recovery_point=50)
    del log
    assert disk.statistics.open_files == 1
    assert [offset for offset, _ in values(again)] == list(range(50))


def ten_batches() -> tuple[VirtualDisk, PartitionLog]:
    """A log of them in small segments, with its checkpoint written."""
    disk = VirtualDisk()
    log = open_log(disk, config=LogConfig(segment_bytes=200))
    for number in range(10):
        append(log, batch(f"value {number}" + "x" * 50))
    carry_out(disk, prepare_checkpoint(log))
    return disk, log


def test_without_descriptors_a_closed_segment_is_refused_and_served_again_later() -> None:
    disk, log = ten_batches()
    disk.descriptors_max = 0
    with pytest.raises(Exception, match="Too many open files"):
        values(log)
    assert log.offline is None
    disk.descriptors_max = None
    assert len(values(log)) == 10


def test_a_log_that_is_cut_back_to_a_closed_segment_goes_on_there() -> None:
    disk, log = ten_batches()
    truncate_to(disk, log, 3)
    assert append(log, batch("again"), now_ms=NOW_MS).base_offset == 3
    assert [offset for offset, _ in values(log)] == [0, 1, 2, 3]
