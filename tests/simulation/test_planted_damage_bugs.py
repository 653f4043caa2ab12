"""Earlier behaviours at damaged files, planted back one by one: the damages must show each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from semel.broker.coordinators import shard_loading
from semel.broker.coordinators.coordinator import Coordinator
from semel.broker.coordinators.shard_loading import ShardLoading
from semel.log.durability import checkpoints
from semel.log.durability.checkpoints import PARTITION_METADATA_FILE, LogStarts
from semel.log.durability.partition_checkpoint import PartitionCheckpoint
from semel.log.recovery import index_loading
from semel.log.recovery.loading import Required
from semel.log.recovery.opening import Opening
from semel.log.segments.segment import Segment
from semel.log.segments.segment_checksums import SegmentChecksums
from semel.log.topic_logs import TopicLogs
from semel.metadata import copies
from semel.metadata.copies import Found
from semel.types import TopicPartition
from semel.wire.records import BatchHeader, verify_crc
from tests.simulation.damaged_broker import Struck, withstand_as_broker
from tests.simulation.damaged_directory import KINDS, withstand_as_directory
from tests.simulation.damaged_replica import withstand_as_replica

Plant: TypeAlias = Callable[[pytest.MonkeyPatch], None]

SEEDS_MAX = 1_500
BROKER_SEEDS_MAX = 24 * SEEDS_MAX
REPLICA_SEEDS_MAX = 600


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
    def verified_contents(
        segment: Segment, checksums: SegmentChecksums, contents: list[bytes], end_offset: int
    ) -> list[bytes]:
        return contents

    patch.setattr(index_loading, "_verified_contents", verified_contents)


def believes_every_log_start(patch: pytest.MonkeyPatch) -> None:
    def of(self: LogStarts, topic_partition: TopicPartition, own: int | None) -> int:
        return self.offsets.get(topic_partition, 0)

    patch.setattr(LogStarts, "of", of)


def takes_the_first_metadata_file_that_can_be_read(patch: pytest.MonkeyPatch) -> None:
    def choose(found: tuple[Found, Found]) -> Found:
        return next(file for file in found if file.contents is not None)

    patch.setattr(copies, "choose", choose)


def passes_over_damaged_batches_of_a_coordinator(patch: pytest.MonkeyPatch) -> None:
    replay = ShardLoading._replay_batch

    def replay_if_sound(self: Any, records: bytes, position: int, header: BatchHeader) -> None:
        if verify_crc(records, position, header):
            replay(self, records, position, header)

    patch.setattr(shard_loading, "verify_crc", lambda records, position, header: True)
    patch.setattr(ShardLoading, "_replay_batch", replay_if_sound)


def lets_clients_of_a_damaged_coordinator_ask_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Coordinator, "why_broken", lambda self, key: None)


def keeps_its_place_in_sync_with_a_shorter_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("semel.broker.broker.lost_replicas", lambda image, logs, config: frozenset())


def _content(opening: Opening, path: str) -> bytes:
    file = opening.disk.open(path)
    try:
        return file.read(0, file.size())
    finally:
        file.close()


# ``first``: the seed that showed it soonest; after a change to the code it is as good as any other.
@pytest.mark.parametrize(
    ("plant", "first"),
    [
        (cuts_a_log_below_its_recovery_point, 41),
        (removes_a_folder_without_a_topic_id, 333),
        (believes_every_index, 11),
        (believes_every_log_start, 27),
    ],
)
def test_a_planted_bug_is_seen(plant: Plant, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    withstand_as_directory(0)  # Prepares the directory without the bug.
    withstand_as_directory(2)
    plant(monkeypatch)
    for seed in (first, *range(SEEDS_MAX)):
        try:
            withstand_as_directory(seed)
        except AssertionError:
            return
    pytest.fail(f"no seed below {SEEDS_MAX} failed")


@pytest.mark.parametrize(
    ("plant", "first", "damaged", "kinds"),
    [
        (takes_the_first_metadata_file_that_can_be_read, 271, "/data/metadata", KINDS),
        (passes_over_damaged_batches_of_a_coordinator, 24_467, "/data/__", ("flip",)),
        (lets_clients_of_a_damaged_coordinator_ask_for_ever, 1_899, "/data/__", KINDS),
        (cuts_a_log_below_its_recovery_point, 2_239, "/data/__", KINDS),
    ],
)
def test_a_planted_bug_is_seen_by_a_whole_broker(
    plant: Plant, first: int, damaged: str, kinds: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = (
        seed
        for seed in (first, *range(3, BROKER_SEEDS_MAX, 4))
        if (struck := Struck.by(seed)).kind in kinds and _hits_a_log(struck.path, damaged)
    )
    for seed in seeds:
        withstand_as_broker(seed)  # It is the bug that fails, not the seed.
        try:
            with monkeypatch.context() as patch:
                plant(patch)
                withstand_as_broker(seed)
        except AssertionError:
            return
    pytest.fail(f"no seed below {BROKER_SEEDS_MAX} failed")


def test_a_planted_bug_is_seen_by_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in (140, *range(REPLICA_SEEDS_MAX)):
        withstand_as_replica(seed)
        try:
            with monkeypatch.context() as patch:
                keeps_its_place_in_sync_with_a_shorter_log(patch)
                withstand_as_replica(seed)
        except AssertionError:
            return
    pytest.fail(f"no seed below {REPLICA_SEEDS_MAX} failed")


def _hits_a_log(path: str, damaged: str) -> bool:
    return path == damaged or (path.startswith(damaged) and path.endswith(".log"))
