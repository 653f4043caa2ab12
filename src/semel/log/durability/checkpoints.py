"""The small text files of the data directory and of a partition's folder, in Kafka's formats.

    <name>-checkpoint         "0", the number of entries, then "topic partition offset" or "epoch offset" per line
    partition.metadata        "version: 0", "topic_id: <22 characters>", and a checksum that Kafka does not read
    meta.properties           cluster.id, node.id, version; semel.directory.id in a cluster of several brokers

The law: a file is replaced as a whole or not at all. A missing file has no entries. A file that does not have exactly
its format raises ``DecodeError``: a number from half a file would be worse than none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar
from uuid import UUID

from semel.errors import DecodeError, SemelError, StorageError
from semel.log import checked_text
from semel.log.disk import Disk, read_file, replace_file
from semel.types import INT64_MAX, TopicPartition, kafka_uuid, parse_kafka_uuid

RECOVERY_POINT_FILE: Final = "recovery-point-offset-checkpoint"
LOG_START_FILE: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_FILE: Final = "replication-offset-checkpoint"
PARTITION_METADATA_FILE: Final = "partition.metadata"
LEADER_EPOCH_FILE: Final = "leader-epoch-checkpoint"
META_PROPERTIES_FILE: Final = "meta.properties"

CHECKPOINT_VERSION: Final = 0
PARTITION_METADATA_VERSION: Final = 0
META_PROPERTIES_VERSION: Final = 1
CHECKSUM_SUFFIX: Final = ".crc32c"

# Not Kafka's name, ``directory.id``: by that one, a data directory of Kafka is recognised (``recovery/identity.py``).
_DIRECTORY_ID: Final = "semel.directory.id"

logger = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The owner of a data directory: its cluster and its broker."""

    cluster_id: str
    node_id: int
    version: int = META_PROPERTIES_VERSION
    directory_id: str | None = None
    """The id of the directory of a broker that shares its metadata with others. It distinguishes a restart of this
    broker from another broker with the same node id."""


# Offsets by partition


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    data = _read(disk, path)
    return {} if data is None else _located(path, decode_offsets, data)


def write_offsets(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    replace_file(disk, path, encode_offsets(offsets))


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return _encode_lines(f"{name.topic} {name.partition} {offset}" for name, offset in offsets.items())


def decode_offsets(data: bytes) -> dict[TopicPartition, int]:
    offsets = {}
    for line in _decode_lines(data):
        fields = line.split(" ")
        if len(fields) != 3 or not fields[0]:
            raise DecodeError(f"{line!r}; a line is: topic partition offset")
        offsets[TopicPartition(fields[0], _number(fields[1]))] = _number(fields[2])
    return offsets


# Offsets with a checksum, in a second file: Kafka's format has none


def _read_checked(disk: Disk, path: str) -> tuple[bytes | None, bool]:
    """The content of a file, and whether its checksum is right. A file that was never written is sound."""
    data = _read(disk, path)
    checksums = _read(disk, path + CHECKSUM_SUFFIX)
    if data is None:
        return None, checksums is None
    return data, checksums is not None and _checksum(data) in checksums.split(b"\n")


def is_sound(disk: Disk, path: str) -> bool:
    """Whether the content of a file has the checksum in its second file."""
    return _read_checked(disk, path)[1]


def _write_checked(disk: Disk, path: str, data: bytes) -> None:
    """Write a file and the second file with its checksum, unless both are there already.

    The checksums of the new and of the old content are written first: after a crash in between, one of them is right.
    """
    old = _read(disk, path)
    checksums = [_checksum(data)] + ([] if old is None else [_checksum(old)])
    if old == data and _checksum(data) in (_read(disk, path + CHECKSUM_SUFFIX) or b"").split(b"\n"):
        return
    replace_file(disk, path + CHECKSUM_SUFFIX, b"".join(line + b"\n" for line in checksums))
    replace_file(disk, path, data)


def _checksum(data: bytes) -> bytes:
    return checked_text.checksum(data).encode("ascii")


# High watermarks: the leader raises one that is too low; one that is too high shows records that may be truncated


def read_high_watermarks(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """The stored high watermarks. Empty if the file is damaged: then the high watermarks begin at the log starts."""
    data, is_sound = _read_checked(disk, path)
    if data is None:
        return {}
    try:
        offsets = decode_offsets(data)
    except DecodeError as error:
        logger.warning("%s is passed over, the leaders say how far their logs may be read: %s", path, error)
        return {}
    return offsets if is_sound else {}


def write_high_watermarks(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    _write_checked(disk, path, encode_offsets(offsets))


# Log starts: deleted records must stay deleted, so a wrong number must be recognised


@dataclass(frozen=True, slots=True)
class LogStarts:
    """The content of ``log-start-offset-checkpoint``, and whether its checksum is right."""

    offsets: dict[TopicPartition, int]
    is_sound: bool

    def of(self, topic_partition: TopicPartition, own: int | None) -> int:
        """The log start offset of a partition. ``own``: the one in its ``partition.checkpoint``, if that is sound."""
        given = self.offsets.get(topic_partition, 0)
        if own is None:
            return given
        return max(own, given) if self.is_sound else own


def read_log_starts(disk: Disk, path: str) -> LogStarts:
    data, is_sound = _read_checked(disk, path)
    if data is None:
        return LogStarts({}, is_sound)
    try:
        return LogStarts(decode_offsets(data), is_sound)
    except DecodeError as error:
        logger.warning("%s is passed over, the partitions' own files say where they start: %s", path, error)
        return LogStarts({}, is_sound=False)


def write_log_starts(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    _write_checked(disk, path, encode_offsets(offsets))


# Leader epochs


def read_leader_epochs(disk: Disk, path: str) -> list[tuple[int, int]]:
    data = _read(disk, path)
    return [] if data is None else _located(path, decode_leader_epochs, data)


def encode_leader_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    return _encode_lines(f"{epoch} {start_offset}" for epoch, start_offset in entries)


def decode_leader_epochs(data: bytes) -> list[tuple[int, int]]:
    entries: list[tuple[int, int]] = []
    for line in _decode_lines(data):
        fields = line.split(" ")
        if len(fields) != 2:
            raise DecodeError(f"{line!r}; a line is: epoch offset")
        entry = _number(fields[0]), _number(fields[1])
        if entries and not (entry[0] > entries[-1][0] and entry[1] > entries[-1][1]):
            raise DecodeError(f"{line!r} after epoch {entries[-1][0]} at {entries[-1][1]}; epochs and offsets ascend")
        entries.append(entry)
    return entries


# The topic id of a partition's folder


def read_topic_id(disk: Disk, path: str) -> UUID | None:
    data = _read(disk, path)
    return None if data is None else _located(path, decode_partition_metadata, data)


def encode_partition_metadata(topic_id: UUID) -> bytes:
    body = f"version: {PARTITION_METADATA_VERSION}\ntopic_id: {kafka_uuid(topic_id)}\n"
    # Kafka reads the first two lines and no further.
    return f"{body}{checked_text.CHECKSUM_KEY}: {checked_text.checksum(body.encode())}\n".encode()


def decode_partition_metadata(data: bytes) -> UUID:
    fields = _decode_properties(data, separator=":")
    _check_partition_metadata(data, fields)
    version = _number(_required(fields, "version"))
    if version != PARTITION_METADATA_VERSION:
        raise DecodeError(f"partition metadata version {version}; only version {PARTITION_METADATA_VERSION} is known")
    text = _required(fields, "topic_id")
    try:
        return parse_kafka_uuid(text)
    except ValueError as error:
        raise DecodeError(f"topic_id {text!r}: {error}") from None


def _check_partition_metadata(data: bytes, fields: Mapping[str, str]) -> None:
    """Raise ``DecodeError`` for unknown fields or a wrong checksum. Kafka's own files have no checksum, nor have those
    of older data directories."""
    if unknown := fields.keys() - {"version", "topic_id", checked_text.CHECKSUM_KEY}:
        raise DecodeError(f"unknown fields {sorted(unknown)}")
    given = fields.get(checked_text.CHECKSUM_KEY)
    body, _, _ = data.rpartition(checked_text.CHECKSUM_KEY.encode())
    if given is not None and given != checked_text.checksum(body):
        raise DecodeError(f"checksum {given}; its content has {checked_text.checksum(body)}")


# The owner of the data directory


def read_meta_properties(disk: Disk, path: str) -> MetaProperties | None:
    """Read ``meta.properties``; ``None`` if it is missing. Raises ``StorageError`` for a directory in a newer format:
    this version must not write to it."""
    data = _read(disk, path)
    return None if data is None else _located(path, decode_meta_properties, data)


def write_meta_properties(disk: Disk, path: str, properties: MetaProperties) -> None:
    replace_file(disk, path, encode_meta_properties(properties))


def encode_meta_properties(properties: MetaProperties) -> bytes:
    text = f"cluster.id={properties.cluster_id}\nnode.id={properties.node_id}\nversion={properties.version}\n"
    if properties.directory_id is not None:
        text += f"{_DIRECTORY_ID}={properties.directory_id}\n"
    return text.encode()


def decode_meta_properties(data: bytes) -> MetaProperties:
    fields = _decode_properties(data, separator="=")
    version = _number(_required(fields, "version"))
    if version > META_PROPERTIES_VERSION:
        raise StorageError(
            f"the data directory has format version {version}; this program knows versions up to "
            f"{META_PROPERTIES_VERSION}. Start it with the newer program that wrote it"
        )
    return MetaProperties(
        _required(fields, "cluster.id"), _number(_required(fields, "node.id")), version, fields.get(_DIRECTORY_ID)
    )


def _read(disk: Disk, path: str) -> bytes | None:
    try:
        return read_file(disk, path)
    except FileNotFoundError:
        return None


def _located(path: str, decode: Callable[[bytes], T], data: bytes) -> T:
    try:
        return decode(data)
    except SemelError as error:
        raise type(error)(f"{path}: {error}") from None


def _encode_lines(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    return "".join(f"{line}\n" for line in (CHECKPOINT_VERSION, len(entries), *entries)).encode()


def _decode_lines(data: bytes) -> list[str]:
    lines = _text(data).split("\n")
    if len(lines) < 3 or lines.pop() != "":
        raise DecodeError("a checkpoint is cut off: it has a version, a count, and ends with its last line")
    version, count, entries = _number(lines[0]), _number(lines[1]), lines[2:]
    if version != CHECKPOINT_VERSION:
        raise DecodeError(f"checkpoint version {version}; only version {CHECKPOINT_VERSION} is known")
    if count != len(entries):
        raise DecodeError(f"a checkpoint says it has {count} entries; it has {len(entries)}")
    return entries


def _decode_properties(data: bytes, *, separator: str) -> dict[str, str]:
    fields = {}
    for line in _text(data).splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        key, found, value = line.partition(separator)
        if not found:
            raise DecodeError(f"{line!r}; a line is: key{separator}value")
        fields[key.strip()] = value.strip()
    return fields


def _required(fields: Mapping[str, str], key: str) -> str:
    value = fields.get(key)
    if not value:
        raise DecodeError(f"{key} is missing")
    return value


def _text(data: bytes) -> str:
    try:
        return data.decode("ascii")
    except UnicodeDecodeError as error:
        raise DecodeError(f"byte {data[error.start]:#04x} at position {error.start}; the file is plain text") from None


def _number(text: str) -> int:
    # int() alone would also take signs, spaces, underscores and the digits of other scripts.
    if not (text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= INT64_MAX):
        raise DecodeError(f"{text!r} is not a number from 0 to {INT64_MAX}")
    return int(text)
