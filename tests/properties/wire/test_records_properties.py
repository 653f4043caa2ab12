"""Record batches under Hypothesis: what is built is read back, and no bytes do worse than ``DecodeError``."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from semel.errors import DecodeError
from semel.wire.compression import Codec, compress, decompress
from semel.wire.control import EndTransactionMarker, build_marker_batch, decode_marker, parse_marker
from semel.wire.records import (
    HEADER_SIZE,
    MAGIC_POSITION,
    RECORD_COUNT_POSITION,
    BatchBuilder,
    Record,
    TimestampType,
    build_batch,
    iterate_headers,
    iterate_records,
    parse_header,
    patch_log_append_time,
    patch_offset_and_epoch,
    verify_crc,
)
from semel.wire.records.varint import VARINT_BITS, VARLONG_BITS, decode_unsigned, encode_varint
from tests.properties.wire.validated_records import validate_records
from tools.fuzz.targets.record_batches import check_batch

SIZE_MAX = 2**20

# The same examples in every run; a longer search is a matter of the profile.
deterministic = settings(derandomize=True, database=None)

int32s = st.integers(0, 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
timestamps = st.one_of(st.integers(0, 200), st.integers(1_700_000_000_000, 1_700_000_100_000), st.just(-1), int64s)
payloads = st.one_of(
    st.none(),
    st.binary(max_size=80),
    st.builds(lambda byte, size: byte * size, st.binary(min_size=1, max_size=1), st.integers(0, 20_000)),
)
headers = st.lists(st.tuples(st.text(max_size=10), st.one_of(st.none(), st.binary(max_size=80))), max_size=4).map(tuple)


@st.composite
def record_lists(draw: st.DrawFn, *, gaps: bool) -> list[Record]:
    """Records with growing offsets; the first offset is that of the batch unless there are gaps."""
    steps = st.one_of(st.integers(1, 3), st.integers(1, 100_000)) if gaps else st.just(1)
    offset = draw(st.integers(0, 2**40)) - 1
    records = []
    for fields in draw(st.lists(st.tuples(timestamps, payloads, payloads, headers), min_size=1, max_size=12)):
        offset += draw(steps)
        records.append(Record(offset, *fields))
    return records


producers = st.fixed_dictionaries(
    {
        "producer_id": st.one_of(st.just(-1), st.integers(0, 2**63 - 1)),
        "producer_epoch": st.integers(-1, 2**15 - 1),
        "base_sequence": st.integers(-1, 2**31 - 1),
        "is_transactional": st.booleans(),
    }
)


@deterministic
@given(
    records=record_lists(gaps=True),
    codec=st.sampled_from(Codec),
    before=st.integers(0, 1000),
    after=st.integers(0, 1000),
    leader_epoch=st.integers(-1, 2**31 - 1),
    is_control=st.booleans(),
    delete_horizon_ms=st.one_of(st.none(), st.integers(0, 2**63 - 1)),
    producer=producers,
)
def test_a_batch_is_read_back_as_it_was_built(
    records: list[Record],
    codec: Codec,
    before: int,
    after: int,
    leader_epoch: int,
    is_control: bool,
    delete_horizon_ms: int | None,
    producer: dict[str, Any],
) -> None:
    base_offset = records[0].offset - before
    batch = build_batch(
        records,
        base_offset=base_offset,
        last_offset_delta=records[-1].offset - base_offset + after,
        partition_leader_epoch=leader_epoch,
        codec=codec,
        is_control=is_control,
        delete_horizon_ms=delete_horizon_ms,
        **producer,
    )
    header = parse_header(batch)
    assert list(iterate_records(batch)) == records
    assert verify_crc(batch, 0, header)
    assert header.size_bytes == len(batch)
    assert (header.base_offset, header.last_offset) == (base_offset, records[-1].offset + after)
    assert (header.record_count, header.partition_leader_epoch) == (len(records), leader_epoch)
    assert header.max_timestamp == max(record.timestamp for record in records)
    assert (header.compression, header.is_control, header.delete_horizon_ms) == (codec, is_control, delete_horizon_ms)
    assert {name: getattr(header, name) for name in producer} == producer


@deterministic
@given(records=record_lists(gaps=False), codec=st.sampled_from(Codec), producer=producers)
def test_a_batch_built_record_by_record_is_the_same_batch(
    records: list[Record], codec: Codec, producer: dict[str, Any]
) -> None:
    builder = BatchBuilder(size_bytes_max=2**30, codec=codec)
    for record in records:
        builder.append(record.timestamp, record.key, record.value, record.headers)
    from_zero = [record._replace(offset=offset) for offset, record in enumerate(records)]
    batch = builder.build(**producer)
    assert batch == build_batch(from_zero, codec=codec, **producer)
    validate_records(batch)
    if codec is Codec.NONE:
        assert builder.size_bytes == len(batch)


@deterministic
@given(
    batches=st.lists(st.tuples(record_lists(gaps=False), st.sampled_from(Codec)), min_size=1, max_size=4),
    base_offset=st.integers(0, 2**62),
    leader_epoch=int32s,
    timestamp=st.integers(0, 2**63 - 1),
    cut=st.integers(0, 10_000),
)
def test_batches_in_a_buffer_are_patched_one_by_one_and_walked(
    batches: list[tuple[list[Record], Codec]], base_offset: int, leader_epoch: int, timestamp: int, cut: int
) -> None:
    built = [build_batch(records, base_offset=records[0].offset, codec=codec) for records, codec in batches]
    buffer = memoryview(bytearray(b"".join(built)))
    for position, _ in iterate_headers(buffer):
        patch_offset_and_epoch(buffer, position, base_offset, leader_epoch)
        patch_log_append_time(buffer, position, timestamp)
    walked = list(iterate_headers(buffer))
    assert [header.size_bytes for _, header in walked] == [len(batch) for batch in built]
    for (position, header), (records, codec) in zip(walked, batches, strict=True):
        assert verify_crc(buffer, position, header)
        assert (header.partition_leader_epoch, header.compression) == (leader_epoch, codec)
        assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
        assert list(iterate_records(buffer, position)) == [
            record._replace(offset=base_offset + n, timestamp=timestamp) for n, record in enumerate(records)
        ]
    end = max(0, len(buffer) - cut)
    whole = [(position, header) for position, header in walked if position + header.size_bytes <= end]
    assert list(iterate_headers(buffer[:end], allow_partial_tail=True)) == whole


def read_everything(data: bytes) -> None:
    """Every reader of the package. Whatever the bytes, the only way out but success is ``DecodeError``."""
    for allow_partial_tail in (False, True):
        with contextlib.suppress(DecodeError):
            for position, header in iterate_headers(data, allow_partial_tail=allow_partial_tail):
                verify_crc(data, position, header)
    for read in (validate_records, parse_marker):
        with contextlib.suppress(DecodeError):
            read(data)
    with contextlib.suppress(DecodeError):
        check_batch(data)


@deterministic
@given(data=st.one_of(st.binary(max_size=HEADER_SIZE), st.binary(min_size=HEADER_SIZE, max_size=200)))
@example(b"")
@example(bytes(HEADER_SIZE))
def test_random_bytes_raise_nothing_but_decode_errors(data: bytes) -> None:
    read_everything(data)
    # Nearly all of them stop at the magic; with a right one and a right length they get further.
    if len(data) >= HEADER_SIZE:
        framed = bytearray(data)
        struct.pack_into(">i", framed, 8, len(data) - 12)
        framed[MAGIC_POSITION] = 2
        struct.pack_into(">i", framed, RECORD_COUNT_POSITION, data[0] % 8)
        framed[23] = 0
        framed[21:23] = bytes([0, data[1] % 6])
        read_everything(bytes(framed))


@settings(deterministic, max_examples=200)
@given(
    records=record_lists(gaps=True),
    codec=st.sampled_from(Codec),
    changes=st.lists(
        st.tuples(st.sampled_from(["flip", "set", "remove", "insert", "cut"]), st.floats(0, 1), st.integers(0, 255)),
        min_size=1,
        max_size=4,
    ),
    keep_header=st.booleans(),
)
def test_damaged_batches_raise_nothing_but_decode_errors(
    records: list[Record], codec: Codec, changes: list[tuple[str, float, int]], keep_header: bool
) -> None:
    batch = bytearray(build_batch(records, base_offset=records[0].offset, codec=codec))
    start = HEADER_SIZE if keep_header else 0
    for change, where, byte in changes:
        position = min(start + int(where * (len(batch) - start)), len(batch) - 1)
        match change:
            case "flip":
                batch[position] ^= 1 << byte % 8
            case "set":
                batch[position] = byte
            case "remove" if len(batch) > start + 1:
                del batch[position]
            case "insert":
                batch.insert(position, byte)
            case "cut" if len(batch) > start + 1:
                del batch[max(position, start + 1) :]
    if keep_header:
        struct.pack_into(">i", batch, 8, len(batch) - 12)
    read_everything(bytes(batch))


@deterministic
@given(
    codec=st.sampled_from(Codec), data=st.binary(max_size=2000), repeat=st.integers(1, 100), slack=st.integers(0, 10)
)
def test_compression_gives_back_the_data_within_its_size(codec: Codec, data: bytes, repeat: int, slack: int) -> None:
    content = data * repeat
    assert decompress(codec, compress(codec, content), size_max=len(content) + slack) == content
    if content:
        try:
            decompress(codec, compress(codec, content), size_max=len(content) - 1)
        except DecodeError:
            return
        raise AssertionError("more came out than was allowed")


@settings(deterministic, max_examples=200)
@given(
    codec=st.sampled_from(Codec),
    data=st.binary(max_size=400),
    changes=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=3),
    tail=st.binary(max_size=20),
    is_compressed=st.booleans(),
)
def test_damaged_streams_raise_nothing_but_decode_errors(
    codec: Codec, data: bytes, changes: list[tuple[float, int]], tail: bytes, is_compressed: bool
) -> None:
    stream = bytearray(compress(codec, data * 10) if is_compressed else data)
    for where, byte in changes:
        if stream:
            stream[min(int(where * len(stream)), len(stream) - 1)] = byte
    with contextlib.suppress(DecodeError):
        assert len(decompress(codec, bytes(stream) + tail, size_max=SIZE_MAX)) <= SIZE_MAX


@deterministic
@given(number=int64s)
@example(0)
@example(-1)
@example(2**63 - 1)
@example(-(2**63))
def test_variable_length_integers_are_read_back(number: int) -> None:
    encoded = encode_varint(number)
    zigzag, position = decode_unsigned(encoded, 0, VARLONG_BITS)
    assert ((zigzag >> 1) ^ -(zigzag & 1), position) == (number, len(encoded))
    fits = -(2**31) <= number < 2**31
    try:
        assert decode_unsigned(encoded, 0, VARINT_BITS) == (zigzag, position)
        assert fits
    except DecodeError:
        assert not fits


@deterministic
@given(
    committed=st.booleans(),
    coordinator_epoch=st.integers(-(2**31), 2**31 - 1),
    producer_id=st.integers(0, 2**63 - 1),
    producer_epoch=st.integers(0, 2**15 - 1),
    timestamp=st.integers(-1, 2**63 - 1),
)
def test_markers_are_read_back(
    committed: bool, coordinator_epoch: int, producer_id: int, producer_epoch: int, timestamp: int
) -> None:
    marker = EndTransactionMarker(committed=committed, coordinator_epoch=coordinator_epoch)
    batch = build_marker_batch(marker, producer_id=producer_id, producer_epoch=producer_epoch, timestamp=timestamp)
    assert parse_marker(batch) == marker


@deterministic
@given(key=st.one_of(st.none(), st.binary(max_size=8)), value=st.one_of(st.none(), st.binary(max_size=10)))
def test_random_control_records_raise_nothing_but_decode_errors(key: bytes | None, value: bytes | None) -> None:
    with contextlib.suppress(DecodeError):
        decode_marker(key, value)
