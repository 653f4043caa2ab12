"""The start and end offsets of partitions, and their offsets at a given time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from semel.blocking import Admin
    from semel.types import TopicPartition


def offsets_at(
    admin: Admin, partitions: Iterable[TopicPartition], time: int, isolation: str = "read_uncommitted"
) -> dict[TopicPartition, int]:
    """Return, for each partition, the offset of the first record with this timestamp or a later one. ``time`` may also
    be one of ``OffsetSpec``.

    A partition without such a record is left out. Raises the first error if there is one.
    """
    found = admin.partitions.list_offsets(dict.fromkeys(partitions, time), isolation_level=isolation).all()
    return {partition: listed.offset for partition, listed in found.items() if listed.offset is not None}


def offsets_where_known(admin: Admin, partitions: Iterable[TopicPartition], time: int) -> dict[TopicPartition, int]:
    """Return the same as ``offsets_at``, without partitions that have an error, for example because they were
    deleted."""
    found = admin.partitions.list_offsets(dict.fromkeys(partitions, time))
    return {partition: listed.offset for partition, listed in found.succeeded.items() if listed.offset is not None}
