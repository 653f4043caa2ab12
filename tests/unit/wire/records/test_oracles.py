"""Agreement with other implementations of record batches: kafka-python, and aiokafka's two (C and Python).

Uncompressed batches must agree byte for byte. A compressor's output is its own, so there each side reads what the other
wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aiokafka.record import default_records as aiokafka_records
from kafka.record import default_records as kafka_python_records

from semel.wire.control import EndTransactionMarker, build_marker_batch
from semel.wire.records import (
    NO_LEADER_EPOCH,
    BatchBuilder,
    Codec,
    Record,
    build_batch,
    iterate_records,
    parse_header,
    verify_crc,
)

NOW = 1_700_000_000_000

RECORD_SETS = {
    "one": [Record(0, NOW, b"key", b"value")],
    "null key": [Record(0, NOW, None, b"value")],
    "tombstone": [Record(0, NOW, b"key", None)],
    "empty key and value": [Record(0, NOW, b"", b"")],
    "headers": [Record(0, NOW, b"k", b"v", (("a", b"1"), ("", b""), ("ключ", None), ("a", b"\x00" * 200)))],
    "time runs back": [Record(0, NOW, b"k", b"v"), Record(1, NOW - 5000, b"k", b"v"), Record(2, NOW + 1, b"k", b"v")],
    "days apart": [Record(0, 0, b"k", b"v"), Record(1, NOW, b"k", b"v")],
    "many": [Record(n, NOW + n // 7, b"key-%d" % n, b"x" * (n % 300)) for n in range(10_000)],
    "large": [Record(0, NOW, b"k" * 10_000, b"v" * 3_000_000), Record(1, NOW, None, b"v" * 63)],
    "lengths at the edges of a varint": [
        Record(n, NOW, b"k" * size, b"v" * size)
        for n, size in enumerate((0, 1, 63, 64, 65, 8191, 8192, 8193, 2**20 - 1, 2**20))
    ],
}

Builder = Callable[[list[Record], Codec], bytes]


def _built_by(builder_type: Any) -> Builder:
    def build(records: list[Record], codec: Codec) -> bytes:
        builder = builder_type(
            magic=2,
            compression_type=int(codec),
            is_transactional=1,
            producer_id=4000,
            producer_epoch=3,
            base_sequence=17,
            batch_size=2**30,
        )
        for record in records:
            assert builder.append(record.offset, record.timestamp, record.key, record.value, list(record.headers))
        return bytes(builder.build())

    return build


BUILDERS = {
    "kafka-python": _built_by(kafka_python_records.DefaultRecordBatchBuilder),
    "aiokafka in C": _built_by(aiokafka_records.DefaultRecordBatchBuilder),
    "aiokafka in Python": _built_by(aiokafka_records._DefaultRecordBatchBuilderPy),
}
READERS = {
    "kafka-python": kafka_python_records.DefaultRecordBatch,
    "aiokafka in C": aiokafka_records.DefaultRecordBatch,
    "aiokafka in Python": aiokafka_records._DefaultRecordBatchPy,
}
# kafka-python needs python-snappy for snappy, which is not among our tools.
CASES = [(oracle, codec) for oracle in BUILDERS for codec in Codec if (oracle, codec) != ("kafka-python", Codec.SNAPPY)]


def ours(records: list[Record], codec: Codec = Codec.NONE, **place: int) -> bytes:
    return build_batch(
        records, codec=codec, producer_id=4000, producer_epoch=3, base_sequence=17, is_transactional=True, **place
    )


def as_record(theirs: Any) -> Record:
    return Record(theirs.offset, theirs.timestamp, theirs.key, theirs.value, tuple(theirs.headers))


def test_the_two_of_aiokafka_are_two() -> None:
    assert aiokafka_records.DefaultRecordBatchBuilder is not aiokafka_records._DefaultRecordBatchBuilderPy


@pytest.mark.parametrize("records", RECORD_SETS.values(), ids=RECORD_SETS)
@pytest.mark.parametrize("oracle", BUILDERS)
def test_uncompressed_batches_agree_byte_for_byte(oracle: str, records: list[Record]) -> None:
    theirs = BUILDERS[oracle](records, Codec.NONE)
    # A producer's leader epoch means nothing: kafka-python writes 0 and aiokafka -1.
    epoch = parse_header(theirs).partition_leader_epoch
    assert epoch in (0, NO_LEADER_EPOCH)
    assert ours(records, partition_leader_epoch=epoch) == theirs


@pytest.mark.parametrize("records", RECORD_SETS.values(), ids=RECORD_SETS)
@pytest.mark.parametrize(("oracle", "codec"), CASES)
def test_we_read_what_they_wrote(oracle: str, codec: Codec, records: list[Record]) -> None:
    theirs = BUILDERS[oracle](records, codec)
    header = parse_header(theirs)
    # Both leave out the compression that does not pay.
    assert header.compression in (codec, Codec.NONE)
    assert verify_crc(theirs, 0, header)
    assert list(iterate_records(theirs)) == records


@pytest.mark.parametrize(("oracle", "codec"), CASES)
def test_batches_that_are_worth_compressing_are_compressed_by_them(oracle: str, codec: Codec) -> None:
    assert parse_header(BUILDERS[oracle](RECORD_SETS["many"], codec)).compression is codec


@pytest.mark.parametrize("records", RECORD_SETS.values(), ids=RECORD_SETS)
@pytest.mark.parametrize(("oracle", "codec"), CASES)
def test_they_read_what_we_wrote(oracle: str, codec: Codec, records: list[Record]) -> None:
    batch = ours(records, codec)
    theirs = READERS[oracle](bytearray(batch))
    assert theirs.validate_crc()
    assert theirs.compression_type == codec
    assert [as_record(record) for record in theirs] == records


@pytest.mark.parametrize("oracle", ["aiokafka in C", "aiokafka in Python"])
def test_a_batch_built_record_by_record_agrees_byte_for_byte(oracle: str) -> None:
    records = RECORD_SETS["many"]
    builder = BatchBuilder(size_bytes_max=2**30)
    for record in records:
        builder.append(record.timestamp, record.key, record.value, record.headers)
    built = builder.build(producer_id=4000, producer_epoch=3, base_sequence=17, is_transactional=True)
    assert built == BUILDERS[oracle](records, Codec.NONE)


@pytest.mark.parametrize("oracle", READERS)
def test_they_read_what_compaction_leaves(oracle: str) -> None:
    kept = [Record(103, NOW, b"a", b"1"), Record(107, NOW + 5, b"b", None)]
    batch = build_batch(kept, base_offset=100, last_offset_delta=9, delete_horizon_ms=NOW + 86_400_000)
    theirs = READERS[oracle](bytearray(batch))
    assert theirs.validate_crc()
    assert [as_record(record) for record in theirs] == kept
    assert theirs.next_offset == 110


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("oracle", READERS)
def test_they_read_our_markers(oracle: str, committed: bool) -> None:
    marker = EndTransactionMarker(committed=committed, coordinator_epoch=12)
    batch = build_marker_batch(marker, producer_id=4000, producer_epoch=3, timestamp=NOW, base_offset=55)
    theirs = READERS[oracle](bytearray(batch))
    assert theirs.validate_crc()
    assert (theirs.is_control_batch, theirs.is_transactional, theirs.producer_id) == (True, True, 4000)
    (record,) = theirs
    assert (record.offset, record.timestamp, record.key) == (55, NOW, b"\x00\x00\x00\x01" if committed else bytes(4))
    assert record.value == b"\x00\x00\x00\x00\x00\x0c"
