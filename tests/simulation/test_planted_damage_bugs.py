"""Earlier behaviours at damaged files, planted back one by one: the damages must show each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest

from semel.log import checkpoints, loading
from semel.log.checkpoints import LogStarts
from semel.log.loading import Required
from semel.log.opening import PARTITION_METADATA_FILE, Opening
from semel.log.partition_checkpoint import PartitionCheckpoint
from semel.log.segment import Segment
from semel.log.segment_checksums import SegmentChecksums
from semel.log.topic_logs import TopicLogs
from semel.types import TopicPartition
from tests.simulation.damaged_directory import withstand

Plant: TypeAlias = Callable[[pytest.MonkeyPatch], None]

SEEDS_MAX = 1_500


def cuts_a_log_below_its_recovery_point(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Required, "or_raise", lambda self, where, end_offset, rest_end: None)


def removes_a_folder_without_a_topic_id(patch: pytest.MonkeyPatch) -> None:
    found = Opening._topic_id_in

    def topic_id_in(self: Opening, folder: str, topic: TopicLogs | None, own: PartitionCheckpoint | None) -> object:
        try:
            checkpoints.decode_partition_metadata(_content(self, f"{folder}/{PARTITION_METADATA_FILE}"))
        except Exception:
            self.disk.remove_folder(folder)
            self.disk.make_folder(folder)
        return found(self, folder, topic, None)

    patch.setattr(Opening, "_topic_id_in", topic_id_in)


def believes_every_index(patch: pytest.MonkeyPatch) -> None:
    def vouched_for(
        segment: Segment, checksums: SegmentChecksums, contents: list[bytes], end_offset: int
    ) -> list[bytes]:
        return contents

    patch.setattr(loading, "_vouched_for", vouched_for)


def believes_every_log_start(patch: pytest.MonkeyPatch) -> None:
    def of(self: LogStarts, topic_partition: TopicPartition, own: int | None) -> int:
        return self.offsets.get(topic_partition, 0)

    patch.setattr(LogStarts, "of", of)


def _content(opening: Opening, path: str) -> bytes:
    file = opening.disk.open(path)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


@pytest.mark.parametrize(
    "plant",
    [
        cuts_a_log_below_its_recovery_point,
        removes_a_folder_without_a_topic_id,
        believes_every_index,
        believes_every_log_start,
    ],
)
def test_a_planted_bug_is_seen(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    withstand(0)  # Prepares the directory without the bug.
    withstand(2)
    plant(monkeypatch)
    for seed in range(SEEDS_MAX):
        try:
            withstand(seed)
        except AssertionError:
            return
    pytest.fail(f"no seed below {SEEDS_MAX} failed")
