"""The sync progress of one partition: which bytes and file names are not durable yet.

Three positions: up to where bytes were passed to the committer (which may copy them to the journal); up to where the
segments' own files are synced (by a checkpoint, or by a group without the journal); and the names of new files and
folders that are not synced. The law: a position moves only over what was written before its sync began.
"""

from __future__ import annotations

from collections.abc import Sequence

from semel.log.disk import File
from semel.log.durability.commit import NewNames, Range
from semel.log.segments.segment import Segment
from semel.log.segments.segment_list import Segments


class SyncProgress:
    def __init__(self, segments: Segments, *, log_end_offset: int, own_files_synced_to: int) -> None:
        self._segments = segments
        self._own_files_synced_to = own_files_synced_to
        self._new_files: tuple[str, ...] = ()
        self._new_folders: tuple[str, ...] = ()
        self._names_version = 0
        self.passed_to_committer(log_end_offset)

    # To the committer.

    def take(self, log_end_offset: int) -> tuple[Range, ...]:
        """The bytes that were written since the last call."""
        segment, position, offset = self._passed
        if segment is self._segments.active:
            self.passed_to_committer(log_end_offset)
            end = segment.size_bytes
            return (Range(segment.file, position, end, offset),) if end > position else ()
        ranges: list[Range] = []
        for candidate in self._segments.reaching(segment.base_offset):
            start = position if candidate is segment else 0
            if candidate.size_bytes > start:
                base_offset = offset if candidate is segment else candidate.base_offset
                ranges.append(Range(candidate.file, start, candidate.size_bytes, base_offset))
        self.passed_to_committer(log_end_offset)
        return tuple(ranges)

    def passed_to_committer(self, log_end_offset: int) -> None:
        """Note that everything that is written now was passed to the committer."""
        active = self._segments.active
        self._passed: tuple[Segment, int, int] = (active, active.size_bytes, log_end_offset)

    def segments_replaced(self, old: Sequence[Segment], following: Segment) -> None:
        """Note that compaction has replaced ``old``, all bytes of which were passed to the committer."""
        if self._passed[0] in old:
            # Otherwise ``take`` would return the whole new segment as unsynced.
            self._passed = (following, 0, following.base_offset)

    # The partition's own files.

    @property
    def own_files_end(self) -> int:
        """The offset up to which the segments' own files are synced."""
        return self._own_files_synced_to

    def own_files_behind(self) -> tuple[File, ...]:
        """The segment files with bytes that are not synced in the file itself."""
        active = self._segments.active
        if active.base_offset <= self._own_files_synced_to:
            return (active.file,)
        return tuple(segment.file for segment in self._segments.reaching(self._own_files_synced_to))

    def own_files_synced(self, end_offset: int, names: NewNames | None) -> None:
        self._own_files_synced_to = max(self._own_files_synced_to, end_offset)
        if names is not None and names.version == self._names_version:
            self._new_files = self._new_folders = ()

    def cut(self, end_offset: int) -> None:
        """Lower the positions, because the log was truncated to ``end_offset``."""
        self._own_files_synced_to = min(self._own_files_synced_to, end_offset)
        self.passed_to_committer(end_offset)

    # Names.

    def named(self, *, files: tuple[str, ...] = (), folders: tuple[str, ...]) -> None:
        """Note that files were created. Until their names are durable, records that only these files hold are not."""
        self._names_version += 1
        self._new_files = tuple(dict.fromkeys((*self._new_files, *files)))
        self._new_folders = tuple(dict.fromkeys((*self._new_folders, *folders)))

    @property
    def has_new_files(self) -> bool:
        return bool(self._new_files)

    def new_names(self) -> NewNames | None:
        if not self._new_folders:
            return None
        return NewNames(self._new_files, self._new_folders, self._names_version)
