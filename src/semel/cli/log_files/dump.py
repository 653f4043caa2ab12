"""``semel log dump``: the content of a file of a data directory, line by line.

A file is recognised by its name. Each line has named values. Unsound data has a line that says so; it is the last line
if the data after it cannot be parsed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from semel.cli.exits import UsageError
from semel.errors import DecodeError
from semel.inspection.internal_records import decoded
from semel.inspection.times import time_text
from semel.log.disk import Disk, read_file
from semel.log.durability import checkpoints
from semel.log.durability.journal import FILE_NAMES as JOURNAL_FILES
from semel.log.durability.journal import KEPT_FILE_NAME
from semel.log.producers import producer_snapshot
from semel.log.recovery.last_run import LAST_RUN_FILE
from semel.log.segments.offset_index import OffsetIndex
from semel.log.segments.time_index import TimeIndex
from semel.log.segments.transaction_index import TransactionIndex
from semel.log.verification.journal import entry_at
from semel.log.verification.walk import Walk, WalkedBatch, walk
from semel.metadata import change_file
from semel.types import INT64_MAX, kafka_uuid
from semel.wire.compression import Codec
from semel.wire.control import parse_marker
from semel.wire.records import BatchHeader, iterate_headers, iterate_records

Line: TypeAlias = Mapping[str, Any]

UNSOUND: Final = "unsound"


def dump(disk: Disk, path: str, *, offsets: range, records: bool) -> Iterator[Line]:
    """The lines of a file, or of all segments in a partition's folder. Raises ``UsageError`` for any other file."""
    if os.path.isdir(path):
        names = [name for name in disk.list(path) if name.endswith(".log")]
        if not names:
            raise UsageError(f"{path} has no segments: name a file, or the folder of a partition")
        for name in names:
            yield from _segment(disk, f"{path}/{name}", offsets, records)
        return
    name = os.path.basename(path)
    if name.endswith(".log"):
        yield from _segment(disk, path, offsets, records)
        return
    reader = _reader_of(name)
    if reader is None:
        raise UsageError(f"{path} has no name of a file in a data directory")
    try:
        yield from reader(path, read_file(disk, path))
    except DecodeError as error:
        yield {UNSOUND: str(error)}


def offset_range(text: str | None) -> range:
    """Parse ``--offsets``: ``A..B``, both inclusive, of which either may be left out; or one offset.

    Raises ``UsageError``.
    """
    if text is None:
        return range(INT64_MAX)
    first, dots, last = text.partition("..")
    if not all(part == "" or (part.isascii() and part.isdigit()) for part in (first, last)) or text in ("", ".."):
        raise UsageError(f"--offsets {text}: it takes the form FIRST..LAST, FIRST.., ..LAST or OFFSET")
    end = int(last) + 1 if last else (INT64_MAX if dots else int(first) + 1)
    return range(int(first or 0), end)


def _segment(disk: Disk, path: str, offsets: range, records: bool) -> Iterator[Line]:
    stem = os.path.basename(path).removesuffix(".log")
    if not (stem.isascii() and stem.isdigit()):
        raise UsageError(f"{path}: the name of a segment is its first offset, with twenty digits")
    topic = os.path.basename(os.path.dirname(os.path.abspath(path))).rpartition("-")[0]
    walked = Walk(path, int(stem))
    yield {"segment": path}
    shown = 0
    for batch in walk(disk, path, walked, deep=True, has_holes=True, trusted_until=INT64_MAX):
        for corrupt in walked.corrupt[shown:]:
            yield {UNSOUND: corrupt.problem, **_batch(corrupt.header, position=corrupt.position)}
        shown = len(walked.corrupt)
        if batch.header.last_offset < offsets.start:
            continue
        if batch.header.base_offset >= offsets.stop:
            return
        yield _batch(batch.header, position=batch.position)
        if records:
            yield from _records(topic, batch, offsets)
    for corrupt in walked.corrupt[shown:]:
        yield {UNSOUND: corrupt.problem, **_batch(corrupt.header, position=corrupt.position)}
    if walked.trouble is not None:
        yield {UNSOUND: walked.trouble, "bytes": walked.size_bytes - walked.position, "resumes_at": walked.resumes_at}


def _batch(header: BatchHeader, *, position: int | None = None) -> Line:
    has_producer = header.has_producer_id
    return {
        "offsets": f"{header.base_offset}..{header.last_offset}",
        "records": header.record_count,
        "position": position,
        "bytes": header.size_bytes,
        "time": time_text(header.max_timestamp),
        "leader_epoch": header.partition_leader_epoch,
        "producer_id": header.producer_id if has_producer else None,
        "producer_epoch": header.producer_epoch if has_producer else None,
        "sequences": f"{header.base_sequence}..{header.last_sequence}"
        if has_producer and not header.is_control
        else None,
        "transactional": header.is_transactional or None,
        "control": header.is_control or None,
        "codec": _codec(header),
        "crc": f"{header.crc:08x}",
    }


def _codec(header: BatchHeader) -> str | None:
    known = {codec.value: codec.name.lower() for codec in Codec}
    return known.get(header.codec_id, str(header.codec_id)) if header.codec_id else None


def _records(topic: str, batch: WalkedBatch, offsets: range) -> Iterator[Line]:
    assert batch.data is not None, "a deep walk reads every batch"
    if batch.header.is_control:
        marker = parse_marker(batch.data)
        if marker is not None:
            yield {
                "marker": "commit" if marker.committed else "abort",
                "offset": batch.header.base_offset,
                "coordinator_epoch": marker.coordinator_epoch,
            }
        return
    for record in iterate_records(batch.data):
        if record.offset not in offsets:
            continue
        meaning = decoded(topic, record.key, record.value)
        yield {
            "offset": record.offset,
            "time": time_text(record.timestamp),
            "key": record.key if meaning is None else meaning["key"],
            "value": record.value if meaning is None else meaning["value"],
            "headers": dict(record.headers) or None,
        }


def _reader_of(name: str) -> Callable[[str, bytes], Iterator[Line]] | None:
    if name in (*JOURNAL_FILES, KEPT_FILE_NAME):
        return _journal
    if name.split(".")[0] == "metadata":
        return _metadata
    if name == "leader-epoch-checkpoint":
        return _leader_epochs
    if name == LAST_RUN_FILE:
        return _text
    if name.endswith("-offset-checkpoint"):
        return _checkpoint
    return _READERS.get(os.path.splitext(name)[1])


def _journal(path: str, data: bytes) -> Iterator[Line]:
    view, position = memoryview(data), 0
    while (found := entry_at(view, position)) is not None:
        generation, entry, end = found
        batches = [header for _, header in iterate_headers(entry.payload)]
        yield {
            "entry": entry.kind.name.lower(),
            "position": position,
            "generation": generation,
            "topic_id": kafka_uuid(entry.topic_id),
            "partition": entry.partition,
            "offsets": f"{entry.base_offset}..{batches[-1].last_offset}" if batches else f"{entry.base_offset}..",
            "batches": len(batches),
            "bytes": end - position,
        }
        position = end


def _metadata(path: str, data: bytes) -> Iterator[Line]:
    contents = change_file.read(data)
    position, sequence = len(change_file.HEADER), 0
    while (found := change_file.record_at(data, position, after_sequence=sequence)) is not None:
        record, end = found
        for entry in record.entries:
            value = None if entry.written is None else entry.written.value
            yield {
                "change": record.sequence,
                "position": position,
                "path": entry.path,
                "deleted": entry.written is None or None,
                "value": value,
            }
        position, sequence = end, record.sequence
    if not contents.is_whole:
        said = f"position {position}: {contents.unsound_bytes} bytes are no record"
        yield {UNSOUND: said, "last_change_seen": contents.sequence_seen}


def _leader_epochs(path: str, data: bytes) -> Iterator[Line]:
    for epoch, start_offset in checkpoints.decode_leader_epochs(data):
        yield {"leader_epoch": epoch, "start_offset": start_offset}


def _checkpoint(path: str, data: bytes) -> Iterator[Line]:
    for partition, offset in checkpoints.decode_offsets(data).items():
        yield {"partition": str(partition), "offset": offset}


def _offset_index(path: str, data: bytes) -> Iterator[Line]:
    for offset, position in OffsetIndex.load(data, _base_offset(path)):
        yield {"offset": offset, "position": position}


def _time_index(path: str, data: bytes) -> Iterator[Line]:
    for timestamp, offset in TimeIndex.load(data, _base_offset(path)):
        yield {"time": time_text(timestamp), "timestamp": timestamp, "offset": offset}


def _transaction_index(path: str, data: bytes) -> Iterator[Line]:
    for aborted in TransactionIndex.load(data, _base_offset(path)):
        yield aborted._asdict()


def _snapshot(path: str, data: bytes) -> Iterator[Line]:
    for entry in producer_snapshot.decode(data):
        yield {
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "last_sequence": entry.last_sequence,
            "last_offset": entry.last_offset,
            "time": time_text(entry.timestamp),
            "coordinator_epoch": entry.coordinator_epoch,
            "transaction_first_offset": entry.transaction_first_offset,
        }


def _text(path: str, data: bytes) -> Iterator[Line]:
    for line in data.decode("ascii", "backslashreplace").splitlines():
        yield {"line": line}


def _base_offset(path: str) -> int:
    stem = os.path.basename(path).partition(".")[0]
    if not (stem.isascii() and stem.isdigit()):
        raise UsageError(f"{path}: the name of an index is the first offset of its segment, with twenty digits")
    return int(stem)


_READERS: Final[Mapping[str, Callable[[str, bytes], Iterator[Line]]]] = {
    ".index": _offset_index,
    ".timeindex": _time_index,
    ".txnindex": _transaction_index,
    ".snapshot": _snapshot,
    ".properties": _text,
    ".metadata": _text,
    ".checkpoint": _text,
    ".checksums": _text,
}
