"""Batches with a true checksum and a body that no reader gets past are refused, whatever the codec and the topic."""

from __future__ import annotations

import struct
from dataclasses import replace
from random import Random

import pytest

from semel.errors import ErrorCode, KafkaError
from semel.log.batch_check import BRIEF_BYTES_MAX, EFFORT_AT_ONCE_MAX, BatchCheck, unpacked_size_max
from semel.log.config import CleanupPolicy, LogConfig
from semel.log.timestamp_lookup import TimestampOffset
from semel.testing.virtual.disk import VirtualDisk
from semel.wire.compression import compress
from semel.wire.crc import crc32c
from semel.wire.records import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    HEADER_SIZE,
    LAST_OFFSET_DELTA_POSITION,
    MAX_TIMESTAMP_POSITION,
    RECORD_COUNT_POSITION,
    BadRecord,
    Codec,
    Record,
    build_batch,
    iterate_headers,
    iterate_records,
    verify_crc,
)
from semel.wire.records.varint import encode_varint
from tests.logs import NOW_MS, append, batch, open_log, read_all, values

SOUND = bytes(build_batch([Record(number, NOW_MS, b"k", b"value") for number in range(3)])[HEADER_SIZE:])
# Length, attributes, timestamp delta, offset delta, key length, key, value length, value, header count.
RECORD = SOUND[: len(SOUND) // 3]

COMPACTED = LogConfig(cleanup_policy=frozenset({CleanupPolicy.COMPACT}))

BODIES = {
    "junk": (b"\xde\xad\xbe\xef" * 20, 3),
    "nothing": (b"", 1),
    "zeros": (bytes(40), 3),
    "fewer records than the count": (SOUND, 4),
    "more records than the count": (SOUND, 2),
    "a count beyond all bytes": (SOUND, 2**31 - 1),
    "a negative record length": (b"\x01" + RECORD[1:] + SOUND[len(RECORD) :], 3),
    "a record length beyond the end": (b"\x7e" + RECORD[1:], 1),
    "an endless integer": (b"\xff" * 40, 3),
    "a negative key length": (RECORD[:4] + b"\x03" + RECORD[5:], 1),
    "a key length beyond the record": (RECORD[:4] + b"\x7e" + RECORD[5:], 1),
    "a negative value length": (RECORD[:6] + b"\x05" + RECORD[7:], 1),
    "a value shorter than the record": (RECORD[:6] + b"\x08" + RECORD[7:], 1),
    "a negative header count": (RECORD[:-1] + b"\x01", 1),
    "a header count without headers": (RECORD[:-1] + b"\x02", 1),
    "an offset delta that repeats": (RECORD * 3, 3),
    "an offset delta that is not the first": (RECORD[:3] + b"\x02" + RECORD[4:], 1),
    "bytes behind the last record": (SOUND + b"\0", 3),
}


def with_body(body: bytes, count: int, codec: Codec = Codec.NONE, *, is_compressed: bool = False) -> memoryview:
    """A batch of this body, with a header and a checksum that are right."""
    records = bytearray(build_batch([Record(0, NOW_MS)])[:HEADER_SIZE])
    records += body if is_compressed else compress(codec, body)
    struct.pack_into(">i", records, 8, len(records) - 12)
    struct.pack_into(">h", records, ATTRIBUTES_POSITION, codec)
    struct.pack_into(">i", records, LAST_OFFSET_DELTA_POSITION, count - 1)
    struct.pack_into(">i", records, RECORD_COUNT_POSITION, count)
    struct.pack_into(">I", records, CRC_POSITION, crc32c(records[ATTRIBUTES_POSITION:]))
    return memoryview(records)


@pytest.mark.parametrize(
    "settings", [{}, {"message_timestamp_before_max_ms": 10**12}, {"compression_type": Codec.GZIP}]
)
@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_no_reader_gets_past_is_refused(name: str, codec: Codec, settings: dict[str, object]) -> None:
    log = open_log(VirtualDisk(), config=replace(LogConfig(), **settings))
    body, count = BODIES[name]
    with pytest.raises(KafkaError) as refused:
        append(log, with_body(body, count, codec))
    assert refused.value.code is ErrorCode.INVALID_RECORD
    assert "orders-0" in refused.value.message
    assert log.log_end_offset == 0
    assert append(log, with_body(SOUND, 3, codec)).last_offset == 2
    assert values(log) == [(0, b"value"), (1, b"value"), (2, b"value")]


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_a_codec_frame_that_is_none_is_refused(codec: Codec) -> None:
    whole = compress(codec, SOUND)
    for body in (b"junk" * 9, b"", whole[:-3], whole[: len(whole) // 2], whole + b"\0\0\0"):
        log = open_log(VirtualDisk())
        with pytest.raises(KafkaError) as refused:
            append(log, with_body(body, 3, codec, is_compressed=True))
        assert (refused.value.code, log.log_end_offset) == (ErrorCode.INVALID_RECORD, 0)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_bomb_is_refused_and_says_how_much_is_allowed(codec: Codec) -> None:
    log = open_log(VirtualDisk())
    bomb = with_body(bytes(30 * 2**20), 1, codec)
    assert len(bomb) < 300_000
    with pytest.raises(KafkaError) as refused:
        append(log, bomb)
    assert (refused.value.code, log.log_end_offset) == (ErrorCode.INVALID_RECORD, 0)
    assert str(unpacked_size_max(len(bomb))) in refused.value.message


def test_what_readers_do_not_unpack_is_not_taken() -> None:
    assert unpacked_size_max(1000) == 16 * 2**20
    assert unpacked_size_max(300_000) == 30_000_000
    assert unpacked_size_max(1_000_000) == 64 * 2**20
    assert unpacked_size_max(20_000_000) == 80_000_000
    assert unpacked_size_max(50_000_000) == 128 * 2**20


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
@pytest.mark.parametrize("body", [bytes(17 * 2**20), bytes(10**6), SOUND], ids=["bomb", "junk", "sound"])
def test_a_check_that_is_over_holds_nothing_of_what_it_unpacked(codec: Codec, body: bytes) -> None:
    """Neither does what was wrong: a traceback keeps all that its functions held, and in a circle with the check."""
    check = BatchCheck(with_body(body, 3, codec), LogConfig())
    check.begin()
    check.finish()
    assert check.unpacked_bytes == 0
    fault = check.fault
    assert (fault is None) == (body is SOUND)
    if fault is not None:
        assert (fault.__traceback__, fault.__context__, fault.__cause__) == (None, None, None)


def test_what_was_unpacked_can_be_given_back_and_the_findings_are_the_same() -> None:
    records = [Record(number, NOW_MS - number, None, b"v" * (number * 7 % 5)) for number in range(40_000)]
    for codec in (Codec.NONE, Codec.ZSTD):
        found = []
        for is_given_back in (False, True):
            batch = memoryview(bytearray(build_batch(records, codec=codec)))
            check = BatchCheck(batch, replace(LogConfig(), message_timestamp_before_max_ms=1000))
            check.begin()
            assert check.is_long
            assert check.unpacked_bytes > 100_000
            if is_given_back:
                check.forget()
                assert check.unpacked_bytes == 0
            check.keep()
            check.finish()
            found.append((check.fault, check.keyless_count, check.keyless, check.oldest))
        assert found[0] == found[1]
        assert found[0][3] == (NOW_MS - 39_999, 39_999)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_a_batch_that_is_too_large_under_its_topic_s_codec_is_refused(codec: Codec) -> None:
    """Unpacked it would take any size, and be kept until it is written."""
    config = replace(LogConfig(), compression_type=codec, max_message_bytes=10_000)
    log = open_log(VirtualDisk(), config=config)
    value = Random(1).randbytes(1000) * 20
    large = memoryview(bytearray(build_batch([Record(0, NOW_MS, b"k", value)], codec=Codec.ZSTD)))
    assert len(large) < 2000
    if codec is Codec.LZ4:
        log.config = replace(config, max_message_bytes=1100)
    check = BatchCheck(large, log.config)
    check.finish()
    assert check.recompressed is None
    with pytest.raises(KafkaError) as refused:
        append(log, large)
    assert (refused.value.code, log.log_end_offset) == (ErrorCode.MESSAGE_TOO_LARGE, 0)
    assert str(HEADER_SIZE + check.recompressed_size) in refused.value.message
    log.config = replace(config, max_message_bytes=30_000)
    assert append(log, large).last_offset == 0


def test_a_record_with_a_thousand_headers_is_taken_and_one_with_a_million_is_refused_at_once() -> None:
    log = open_log(VirtualDisk())
    many = build_batch([Record(0, NOW_MS, b"k", b"v", (("name", b"value"),) * 1000)])
    assert append(log, memoryview(bytearray(many))).last_offset == 0
    too_many = b"\0\0\0\2k\2v" + encode_varint(10**6) + b"\0\1" * 10**6
    check = BatchCheck(with_body(encode_varint(len(too_many)) + too_many, 1, Codec.ZSTD), LogConfig())
    check.begin()
    check.finish()
    assert isinstance(check.fault, BadRecord)
    assert "header count 1000000; a record may have 100000" in check.fault.what
    assert check.effort <= 2 * 10**6 // 256


def test_the_event_loop_walks_no_more_headers_than_it_has_effort_for() -> None:
    headers = tuple((f"{number % 10}", b"v" * (number % 3)) for number in range(60_000))
    check = BatchCheck(memoryview(bytearray(build_batch([Record(0, NOW_MS, b"k", b"v", headers)]))), LogConfig())
    check.begin()
    assert (check.is_long, check.effort) == (True, EFFORT_AT_ONCE_MAX)
    check.finish()
    assert check.fault is None


def test_the_record_that_is_wrong_is_named() -> None:
    log = open_log(VirtualDisk())
    wrong = bytearray(SOUND)
    wrong[len(RECORD) + 4] = 3  # The key length of the second record.
    with pytest.raises(KafkaError) as refused:
        append(log, with_body(bytes(wrong), 3))
    assert refused.value.record_errors == ((1, "key length -2"),)


@pytest.mark.parametrize("codec", Codec)
def test_records_without_a_key_are_named_on_a_compacted_topic(codec: Codec) -> None:
    log = open_log(VirtualDisk(), config=COMPACTED)
    with pytest.raises(KafkaError) as refused:
        append(log, batch("a", "b", "c", "d", keys=[b"k", None, b"k", None], codec=codec))
    text = "the record has no key; a compacted topic needs one"
    assert (refused.value.code, refused.value.record_errors) == (ErrorCode.INVALID_RECORD, ((1, text), (3, text)))
    assert "2 of 4 records" in refused.value.message
    assert append(log, batch("a", "b", keys=[b"k", b"l"], codec=codec)).last_offset == 1


def test_a_hundred_records_without_a_key_are_named_and_all_are_counted() -> None:
    log = open_log(VirtualDisk(), config=COMPACTED)
    with pytest.raises(KafkaError) as refused:
        append(log, batch(*["value"] * 1000, keys=[None] * 1000))
    assert [number for number, _ in refused.value.record_errors] == list(range(100))
    assert "1000 of 1000 records" in refused.value.message


def test_the_oldest_record_is_named_and_one_without_a_timestamp_is_never_too_old() -> None:
    log = open_log(VirtualDisk(), config=replace(LogConfig(), message_timestamp_before_max_ms=1000))
    old = [Record(0, NOW_MS, b"k"), Record(1, NOW_MS - 5000, b"k"), Record(2, -1, b"k")]
    with pytest.raises(KafkaError) as refused:
        append(log, memoryview(bytearray(build_batch(old))))
    assert refused.value.code is ErrorCode.INVALID_TIMESTAMP
    assert [number for number, _ in refused.value.record_errors] == [1]
    assert append(log, memoryview(bytearray(build_batch([old[0], Record(1, -1, b"k")])))).last_offset == 1


@pytest.mark.parametrize(
    "settings",
    [{}, {"message_timestamp_before_max_ms": 10**12}, {"compression_type": Codec.GZIP}],
    ids=["plain", "oldest", "recompressed"],
)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("told", [-1, NOW_MS, NOW_MS + 50, NOW_MS + 10**12], ids=["none", "first", "late", "future"])
@pytest.mark.parametrize("deltas", [(0,), (0, 5), (0, 3, -2), (-7,), tuple(range(300)), (0, 40_000) * 150], ids=len)
def test_the_highest_timestamp_of_a_batch_is_that_of_its_records(
    deltas: tuple[int, ...], told: int, codec: Codec, settings: dict[str, object]
) -> None:
    """sarama leaves it out of the header (-1). Lookups by timestamp, and retention, go by the header."""
    log = open_log(VirtualDisk(), config=replace(LogConfig(), **settings))
    records = [Record(number, NOW_MS + delta, b"k", b"v") for number, delta in enumerate(deltas)]
    sent = bytearray(build_batch(records, codec=codec))
    struct.pack_into(">q", sent, MAX_TIMESTAMP_POSITION, told)
    struct.pack_into(">I", sent, CRC_POSITION, crc32c(sent[ATTRIBUTES_POSITION:]))
    append(log, memoryview(sent))

    newest = max(deltas)
    stored = bytearray(read_all(log))
    ((position, header),) = iterate_headers(stored)
    assert header.max_timestamp == NOW_MS + newest
    assert verify_crc(stored, position, header)
    found = TimestampOffset(NOW_MS + newest, deltas.index(newest), 0)
    assert (log.largest_timestamp(), log.offset_for_timestamp(NOW_MS + newest)) == (found, found)


def test_a_record_of_the_future_is_refused_whatever_the_header_says() -> None:
    for codec in (Codec.NONE, Codec.ZSTD):
        log = open_log(VirtualDisk())
        sent = bytearray(build_batch([Record(0, NOW_MS), Record(1, NOW_MS + 7_200_000)], codec=codec))
        struct.pack_into(">q", sent, MAX_TIMESTAMP_POSITION, NOW_MS)
        struct.pack_into(">I", sent, CRC_POSITION, crc32c(sent[ATTRIBUTES_POSITION:]))
        with pytest.raises(KafkaError) as refused:
            append(log, memoryview(sent))
        assert (refused.value.code, log.log_end_offset) == (ErrorCode.INVALID_TIMESTAMP, 0)


def test_the_event_loop_is_given_a_limited_part_of_a_large_batch_and_the_rest_is_found_elsewhere() -> None:
    """Records of changing sizes are walked one by one; two million of them would take a second and more."""
    count = 200_000
    records = [Record(number, NOW_MS, b"k", b"v" * (number * 7 % 5)) for number in range(count)]
    for codec in (Codec.NONE, Codec.ZSTD):
        check = BatchCheck(memoryview(bytearray(build_batch(records, codec=codec))), LogConfig())
        check.begin()
        assert (check.is_long, check.is_over) == (True, False)
        assert check.effort <= 2 * EFFORT_AT_ONCE_MAX
        kept = check.keep()
        check.finish()
        assert (check.is_long, check.is_over, check.fault) == (False, True, None)
        assert sum(1 for _ in iterate_records(kept)) == count


def test_many_small_compressed_batches_get_little_each_before_they_go_elsewhere() -> None:
    """A turn of the loop takes 256 KB; what it unpacks and walks goes by what was sent."""
    tiny = [Record(number, NOW_MS, b"", b"") for number in range(100_000)]
    check = BatchCheck(memoryview(bytearray(build_batch(tiny, codec=Codec.ZSTD))), LogConfig())
    check.begin()
    assert check.is_long
    assert check.effort < 2000


def test_runs_are_checked_at_once_however_many_records_they_have() -> None:
    chance = Random(1)
    records = [Record(number, NOW_MS + number // 50, None, chance.randbytes(100)) for number in range(9000)]
    for codec in (Codec.NONE, Codec.LZ4):
        check = BatchCheck(memoryview(bytearray(build_batch(records, codec=codec))), LogConfig())
        check.begin()
        assert (check.is_over, check.fault, check.keyless_count) == (True, None, 9000)


def test_a_check_that_was_begun_under_other_settings_is_not_believed_about_the_new_ones() -> None:
    log = open_log(VirtualDisk())
    old = batch("a", timestamp=NOW_MS - 5000)
    check = log.begin_check(old)
    log.config = replace(log.config, message_timestamp_before_max_ms=1000)
    with pytest.raises(KafkaError) as refused:
        log.append(old, now_ms=NOW_MS, check=check)
    assert refused.value.code is ErrorCode.INVALID_TIMESTAMP

    keyless = batch("a", keys=[None])
    log.config = LogConfig()
    check = log.begin_check(keyless)
    log.config = COMPACTED
    with pytest.raises(KafkaError) as refused:
        log.append(keyless, now_ms=NOW_MS, check=check)
    assert refused.value.code is ErrorCode.INVALID_RECORD

    plain = batch("a")
    log.config = replace(LogConfig(), compression_type=Codec.ZSTD)
    check = log.begin_check(plain)
    log.config = replace(LogConfig(), compression_type=Codec.GZIP)
    log.append(plain, now_ms=NOW_MS, check=check)
    assert values(log) == [(0, b"a")]


def test_the_largest_brief_batch_is_as_large_as_what_many_requests_of_one_turn_may_be() -> None:
    assert BRIEF_BYTES_MAX <= 256 * 1024
