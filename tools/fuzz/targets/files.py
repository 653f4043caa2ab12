"""Targets for files of the data directory: snapshots, indexes, checkpoints, the journal, and the metadata store."""

from __future__ import annotations

import struct
from random import Random
from typing import Final
from uuid import UUID

from semel.errors import DecodeError, StorageError
from semel.log import checked_text
from semel.log.durability import checkpoints, journal, partition_checkpoint
from semel.log.durability.checkpoints import MetaProperties
from semel.log.durability.partition_checkpoint import PartitionCheckpoint
from semel.log.producers import producer_snapshot
from semel.log.segments.offset_index import OffsetIndex
from semel.log.segments.time_index import TimeIndex
from semel.log.segments.transaction_index import TransactionIndex
from semel.metadata import change_file
from semel.metadata.store import Versioned
from semel.types import INT64_MAX, TopicPartition
from semel.wire.crc import crc32c
from tools.fuzz.target import Target

_BASE: Final = 1000
_ROUNDS: Final = 12


def targets() -> list[Target]:
    return [
        Target("producer snapshot", _snapshot, _check_snapshot, mended=_mended_snapshot, rounds=_ROUNDS),
        Target("transaction index", _transaction_index, _check_transaction_index, rounds=_ROUNDS),
        Target("offset index", _offset_index, _check_offset_index, rounds=_ROUNDS),
        Target("time index", _time_index, _check_time_index, rounds=_ROUNDS),
        Target("offset checkpoint", _offsets, _check_offsets, rounds=_ROUNDS),
        Target("leader epoch checkpoint", _epochs, _check_epochs, rounds=_ROUNDS),
        Target("partition.metadata", _partition_metadata, _check_partition_metadata, rounds=_ROUNDS),
        Target("meta.properties", _meta, _check_meta, (DecodeError, StorageError), rounds=_ROUNDS),
        Target("partition.checkpoint", _checkpoint, _check_checkpoint, mended=_mended_text, rounds=_ROUNDS),
        Target("metadata store file", _store_file, _check_store_file, mended=_mended_store_file, rounds=_ROUNDS),
        Target("journal", _journal, _check_journal, (StorageError,), mended=_mended_journal, rounds=_ROUNDS),
    ]


def _snapshot(random: Random) -> bytes:
    return producer_snapshot.encode_fields(
        (producer, 0, random.choice((-1, 5)), random.choice((-1, 9)), 0, 10**12, random.choice((-1, 2)), -1)
        for producer in range(random.randrange(5))
    )


def _check_snapshot(data: bytes) -> None:
    entries = producer_snapshot.decode(data)
    again = producer_snapshot.decode(producer_snapshot.encode(entries))
    assert again == entries, f"{entries} became {again}"


def _mended_snapshot(data: bytes) -> bytes:
    return data[:2] + struct.pack(">I", crc32c(data[6:])) + data[6:]


def _transaction_index(random: Random) -> bytes:
    entries, offset = [], _BASE
    for producer in range(random.randrange(5)):
        entries.append(struct.pack(">hqqqq", 0, producer, offset, offset + 5, offset + 1))
        offset += random.randint(6, 9)
    return b"".join(entries)


def _check_transaction_index(data: bytes) -> None:
    index = TransactionIndex.load(data, _BASE)
    kept = index.packed(0, index.entries)
    beyond = struct.iter_unpack(">hqqqq", data[len(kept) :])  # Entries with the largest offset are left out.
    assert data.startswith(kept)
    assert all(last == INT64_MAX for _, _, _, last, _ in beyond)
    index.collect_aborted(_BASE, _BASE + 10)


def _offset_index(random: Random) -> bytes:
    count = random.randrange(6)
    pairs = zip(sorted(random.sample(range(10**6), count)), sorted(random.sample(range(10**6), count)), strict=True)
    return b"".join(struct.pack(">ii", *pair) for pair in pairs)


def _check_offset_index(data: bytes) -> None:
    index = OffsetIndex.load(data, _BASE)
    assert index.packed(0, index.entries) == data
    index.lookup(_BASE + 10)


def _time_index(random: Random) -> bytes:
    count = random.randrange(6)
    pairs = zip(sorted(random.sample(range(10**12), count)), sorted(random.sample(range(10**6), count)), strict=True)
    return b"".join(struct.pack(">qi", *pair) for pair in pairs)


def _check_time_index(data: bytes) -> None:
    index = TimeIndex.load(data, _BASE)
    assert index.packed(0, index.entries) == data
    index.lookup(10**6)


def _offsets(random: Random) -> bytes:
    named = [
        TopicPartition(random.choice(("a", "b-c", "x" * 100)), partition) for partition in range(random.randrange(5))
    ]
    return checkpoints.encode_offsets({name: random.getrandbits(random.choice((3, 62))) for name in named})


def _check_offsets(data: bytes) -> None:
    offsets = checkpoints.decode_offsets(data)
    assert checkpoints.decode_offsets(checkpoints.encode_offsets(offsets)) == offsets


def _epochs(random: Random) -> bytes:
    return checkpoints.encode_leader_epochs((epoch, epoch * 7) for epoch in range(random.randrange(6)))


def _check_epochs(data: bytes) -> None:
    epochs = checkpoints.decode_leader_epochs(data)
    assert checkpoints.decode_leader_epochs(checkpoints.encode_leader_epochs(epochs)) == epochs


def _partition_metadata(random: Random) -> bytes:
    return checkpoints.encode_partition_metadata(UUID(int=random.getrandbits(128)))


def _check_partition_metadata(data: bytes) -> None:
    topic_id = checkpoints.decode_partition_metadata(data)
    assert checkpoints.decode_partition_metadata(checkpoints.encode_partition_metadata(topic_id)) == topic_id


def _meta(random: Random) -> bytes:
    directory_id = random.choice((None, "abc"))
    return checkpoints.encode_meta_properties(MetaProperties("cluster", random.randrange(9), directory_id=directory_id))


def _check_meta(data: bytes) -> None:
    properties = checkpoints.decode_meta_properties(data)
    assert checkpoints.decode_meta_properties(checkpoints.encode_meta_properties(properties)) == properties


def _checkpoint(random: Random) -> bytes:
    epochs = tuple((epoch, epoch * 5) for epoch in range(random.randrange(4)))
    checkpoint = PartitionCheckpoint(UUID(int=random.getrandbits(128)), random.getrandbits(40), 3, epochs)
    return partition_checkpoint.encode(checkpoint)


def _check_checkpoint(data: bytes) -> None:
    checkpoint = partition_checkpoint.decode(data)
    assert partition_checkpoint.decode(partition_checkpoint.encode(checkpoint)) == checkpoint


def _mended_text(data: bytes) -> bytes:
    mark = f"{checked_text.CHECKSUM_KEY}: ".encode()
    body = data.rpartition(mark)[0] or data
    return body + mark + checked_text.checksum(body).encode() + b"\n"


def _store_file(random: Random) -> bytes:
    data = bytearray(change_file.HEADER)
    for sequence in range(1, random.randint(1, 4)):
        entries = tuple(
            change_file.Entry(f"/topics/{number}", random.choice((None, Versioned(b"{}", number))))
            for number in range(random.randrange(4))
        )
        data += change_file.encode(change_file.Record(sequence, entries))
    return bytes(data)


def _check_store_file(data: bytes) -> None:
    contents = change_file.read(data)
    if contents.values:
        again = change_file.read(change_file.snapshot(contents.values, contents.sequence))
        assert (again.values, again.sequence) == (contents.values, contents.sequence)


def _mended_store_file(data: bytes) -> bytes:
    """Return the file as a single record with the correct size and checksum."""
    start = len(change_file.HEADER)
    body = data[start + 8 :]
    size = struct.pack(">I", len(body))
    return change_file.HEADER + size + struct.pack(">I", crc32c(body, crc32c(size))) + body


_ENTRY: Final = struct.Struct(">QB16siqI")
_MAGIC: Final = struct.pack(">I", 0x53454D4C)


def _journal(random: Random) -> bytes:
    return b"".join(_journal_entry(random, offset) for offset in range(random.randrange(4))) + bytes(64)


def _journal_entry(random: Random, offset: int) -> bytes:
    payload = random.randbytes(random.choice((0, 10, 100)))
    rest = _ENTRY.pack(3, random.choice((1, 2)), random.randbytes(16), 0, offset, len(payload)) + payload
    return _MAGIC + struct.pack(">I", crc32c(rest)) + rest


def _check_journal(data: bytes) -> None:
    _, entries = journal.decode_entries(data)
    assert sum(len(entry.payload) for entry in entries) <= len(data)


def _mended_journal(data: bytes) -> bytes:
    if len(data) < 8 + _ENTRY.size:
        return data
    mended = bytearray(data)
    struct.pack_into(">I", mended, 8 + _ENTRY.size - 4, len(data) - 8 - _ENTRY.size)
    return _MAGIC + struct.pack(">I", crc32c(mended[8:])) + mended[8:]
