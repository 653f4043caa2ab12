"""The parameters and results of the appends and reads of a partition's log."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from semel.log.segments.transaction_index import AbortedTransaction


class Origin(Enum):
    """The source of a batch. A client's batch is checked; a coordinator builds its own."""

    CLIENT = "client"
    COORDINATOR = "coordinator"


class Isolation(Enum):
    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


class Appended(NamedTuple):
    """The result of an append: where the batch is. ``duplicate``: an earlier append wrote it, and these are its
    offsets."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int | None
    log_start_offset: int
    duplicate: bool


class ReadResult(NamedTuple):
    """The result of a read: batches, beginning with the one that holds the requested offset. The last one may be
    incomplete."""

    records: bytes
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: list[AbortedTransaction] | None  # for read_committed only
