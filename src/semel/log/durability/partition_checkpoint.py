"""One partition's ``partition.checkpoint``: its topic id, recovery point, log start offset and leader epochs.

The same values are in ``partition.metadata``, ``leader-epoch-checkpoint`` and the checkpoint files of the data
directory. Those have Kafka's formats, for Kafka's tools, and no checksum. This file has one, so it is used first; the
others are used if it is missing or damaged.

The law: it is written after everything below its recovery point is synced, and before the first segment below its log
start is removed. So if a record between the two offsets is missing, the disk has lost it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from semel.errors import DecodeError
from semel.log import checked_text
from semel.log.disk import Disk, read_file
from semel.types import kafka_uuid, parse_kafka_uuid

PARTITION_CHECKPOINT_FILE: Final = "partition.checkpoint"
VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class PartitionCheckpoint:
    topic_id: UUID
    recovery_point: int
    log_start_offset: int
    epochs: tuple[tuple[int, int], ...]  # leader epoch, start offset


def encode(checkpoint: PartitionCheckpoint) -> bytes:
    return checked_text.encode(
        (
            ("version", VERSION),
            ("topic_id", kafka_uuid(checkpoint.topic_id)),
            ("recovery_point", checkpoint.recovery_point),
            ("log_start_offset", checkpoint.log_start_offset),
            *(("epoch", f"{epoch} {start_offset}") for epoch, start_offset in checkpoint.epochs),
        )
    )


def decode(data: bytes) -> PartitionCheckpoint:
    """Decode the content of a ``partition.checkpoint`` file. Raises ``DecodeError``."""
    fields = checked_text.decode(data, version=VERSION)
    if tuple(key for key, _ in fields[:3]) != ("topic_id", "recovery_point", "log_start_offset"):
        raise DecodeError(f"its fields are {[key for key, _ in fields]}")
    (_, topic_id), (_, recovery_point), (_, log_start_offset), *epochs = fields
    try:
        return PartitionCheckpoint(
            parse_kafka_uuid(topic_id),
            int(recovery_point),
            int(log_start_offset),
            tuple(_epoch(value) for _, value in epochs),
        )
    except ValueError as error:
        raise DecodeError(str(error)) from None


def read(disk: Disk, folder: str) -> PartitionCheckpoint | None:
    """Read the checkpoint in a partition's folder; ``None`` if there is none. Raises ``DecodeError`` with its path."""
    path = f"{folder}/{PARTITION_CHECKPOINT_FILE}"
    try:
        return decode(read_file(disk, path))
    except FileNotFoundError:
        return None
    except DecodeError as error:
        raise DecodeError(f"{path}: {error}") from None


def _epoch(text: str) -> tuple[int, int]:
    epoch, start_offset = text.split(" ")
    return int(epoch), int(start_offset)
