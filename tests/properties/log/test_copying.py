"""Copies of a log: whatever the sizes of answers and segments, a follower has what its leader has."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from semel.log.config import LogConfig
from semel.log.partition_log import PartitionLog
from semel.testing.virtual.disk import VirtualDisk
from semel.wire.records import iterate_headers, patch_offset_and_epoch
from tests.logs import NOW_MS, batch, marker, open_log, produced
from tests.unit.log.recovery.test_recovery import state

CONFIGS = st.builds(
    LogConfig,
    segment_bytes=st.sampled_from((150, 400, 1_000, 10**6)),
    index_interval_bytes=st.sampled_from((0, 1, 100, 4_096)),
    segment_index_bytes=st.sampled_from((24, 60, 10**6)),
    segment_ms=st.sampled_from((100, 10_000, 10**9)),
)
BATCHES = st.lists(
    st.tuples(
        st.sampled_from(("plain", "idempotent", "transactional", "commit", "abort")),
        st.integers(0, 60),  # the size of a value
        st.integers(-1, 3_000),  # the timestamp; -1 is none
        st.sampled_from((0, 0, 0, 1, 7)),  # offsets that compaction has removed before it
        st.sampled_from((0, 0, 1)),  # a new epoch
    ),
    max_size=25,
)


def leader_s_bytes(chosen: list[tuple[str, int, int, int, int]]) -> bytes:
    """Batches as a leader holds them."""
    parts: list[bytes] = []
    offset, epoch, sequence = 0, 0, 0
    for kind, size, timestamp, removed, newer in chosen:
        offset, epoch = offset + removed, epoch + newer
        if kind in ("commit", "abort"):
            records = marker(committed=kind == "commit", producer=2)
        elif kind == "plain":
            records = batch("v" * size, timestamp=timestamp)
        elif kind == "idempotent":
            records = produced(len(parts), "v" * size, producer=10 + len(parts))
        else:
            records = produced(sequence, "v" * size, producer=2, transactional=True)
            sequence += 1
        patch_offset_and_epoch(records, 0, offset, epoch)
        parts.append(bytes(records))
        offset += 1
    return b"".join(parts)


def copy_of(data: bytes, config: LogConfig, sizes: list[int]) -> PartitionLog:
    """A follower that gets so many batches with each answer."""
    log = open_log(VirtualDisk(), config=config)
    ends = [position + header.size_bytes for position, header in iterate_headers(data)]
    start, number = 0, 0
    while number < len(ends):
        number = min(number + sizes[number % len(sizes)], len(ends))
        log.append_copied(memoryview(data)[start : ends[number - 1]], now_ms=NOW_MS)
        start = ends[number - 1]
    return log


def files(log: PartitionLog) -> list[Any]:
    return [
        (segment.base_offset, segment.size_bytes, *[index.packed(0, index.entries) for index in segment.indexes])
        for segment in log.segments
    ]


@given(chosen=BATCHES, config=CONFIGS, sizes=st.lists(st.integers(1, 12), min_size=1, max_size=4))
def test_batches_copied_together_leave_what_they_leave_one_by_one(
    chosen: list[tuple[str, int, int, int, int]], config: LogConfig, sizes: list[int]
) -> None:
    data = leader_s_bytes(chosen)
    together, one_by_one = copy_of(data, config, sizes), copy_of(data, config, [1])
    assert (state(together), files(together)) == (state(one_by_one), files(one_by_one))
    assert b"".join(segment.file.read(0, segment.size_bytes) for segment in together.segments) == data


@given(chosen=BATCHES, config=CONFIGS, own=CONFIGS, max_bytes=st.integers(0, 2_000))
def test_what_a_leader_reads_for_a_follower_makes_the_same_log(
    chosen: list[tuple[str, int, int, int, int]], config: LogConfig, own: LogConfig, max_bytes: int
) -> None:
    leader = copy_of(leader_s_bytes(chosen), config, [3])
    follower = open_log(VirtualDisk(), config=own)
    while follower.log_end_offset < leader.log_end_offset:
        records = leader.read_copy(follower.log_end_offset, max_bytes).records
        assert records
        follower.append_copied(memoryview(records), now_ms=NOW_MS)
    assert state(follower) == state(leader)
