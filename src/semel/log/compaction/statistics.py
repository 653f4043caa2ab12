"""Counters of compaction, for metrics and log lines."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class CleanerStatistics:
    passes: int = 0
    passes_given_up: int = 0
    segments_replaced: int = 0
    segments_left_alone: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    bytes_freed: int = 0  # by how much the log files became smaller
    records_kept: int = 0
    records_dropped: int = 0
    records_without_key: int = 0
    batches_undecodable: int = 0
    map_entries_max: int = 0
    seconds: float = 0.0
    slice_seconds_max: float = 0.0  # the longest that requests had to wait for one slice
