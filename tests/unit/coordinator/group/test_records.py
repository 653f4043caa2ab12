"""Records of ``__consumer_offsets`` against bytes that Apache Kafka 4.3.0's own serializer has written."""

from __future__ import annotations

import logging
from uuid import UUID

import pytest

from semel.coordinator.group.consumer.records import KINDS
from semel.coordinator.group.formats import Kind
from semel.coordinator.group.records import (
    GroupMetadata,
    GroupRecord,
    GroupTombstone,
    Member,
    OffsetCommit,
    OffsetKey,
    OffsetTombstone,
    decode,
    encode,
)
from semel.errors import DecodeError

COMMITTED_MS = 1_700_000_000_000
EXPIRES_MS = 1_700_000_600_000
TOPIC_ID = UUID("01020304-0506-0708-090a-0b0c0d0e0f10")

KEY = OffsetKey("payments", "orders", 3)
OFFSET_KEY = "000100087061796d656e747300066f726465727300000003"
LEGACY_OFFSET_KEY = "0000" + OFFSET_KEY[4:]
GROUP_KEY = "000200087061796d656e7473"

BARE = OffsetCommit(KEY, 42, None, "méta", COMMITTED_MS)
WITH_EXPIRY = OffsetCommit(KEY, 42, None, "méta", COMMITTED_MS, expires_ms=EXPIRES_MS)
WITH_EPOCH = OffsetCommit(KEY, 42, 7, "méta", COMMITTED_MS)
WITH_TOPIC_ID = OffsetCommit(KEY, 42, 7, "méta", COMMITTED_MS, topic_id=TOPIC_ID)

VALUE_V0 = "0000000000000000002a00056dc3a974610000018bcfe56800"
VALUE_V1 = "0001000000000000002a00056dc3a974610000018bcfe568000000018bcfee8fc0"
VALUE_V2 = "0002000000000000002a00056dc3a974610000018bcfe56800"
VALUE_V3 = "0003000000000000002a0000000700056dc3a974610000018bcfe56800"
VALUE_V4 = "0004000000000000002a00000007066dc3a974610000018bcfe568000100100102030405060708090a0b0c0d0e0f10"

GROUP_V0 = (
    "00000008636f6e73756d657200000005000572616e676500036d2d31"
    "0000000100036d2d31000163000a2f3132372e302e302e310000afc80000000201020000000103"
)
GROUP_V1 = (
    "00010008636f6e73756d657200000005000572616e676500036d2d31"
    "0000000100036d2d31000163000a2f3132372e302e302e31000493e00000afc80000000201020000000103"
)
GROUP_V2 = (
    "00020008636f6e73756d657200000005000572616e676500036d2d310000018bcfe56800"
    "0000000100036d2d31000163000a2f3132372e302e302e31000493e00000afc80000000201020000000103"
)
GROUP_V3 = (
    "00030008636f6e73756d657200000005000572616e676500036d2d310000018bcfe56800"
    "0000000100036d2d310003692d31000163000a2f3132372e302e302e31000493e00000afc80000000201020000000103"
)
GROUP_V4 = (
    "000409636f6e73756d6572000000050672616e6765046d2d310000018bcfe56800"
    "02046d2d3104692d3102630b2f3132372e302e302e31000493e00000afc803010202030000"
)
EMPTY_GROUP_V3 = "00030008636f6e73756d657200000006ffffffff000000000000000900000000"


def group(*, changed_ms: int | None, instance_id: str | None, rebalance_timeout_ms: int | None) -> GroupMetadata:
    member = Member("m-1", instance_id, "c", "/127.0.0.1", rebalance_timeout_ms, 45_000, b"\x01\x02", b"\x03")
    return GroupMetadata("payments", "consumer", 5, "range", "m-1", changed_ms, (member,))


FULL_GROUP = group(changed_ms=COMMITTED_MS, instance_id="i-1", rebalance_timeout_ms=300_000)
EMPTY_GROUP = GroupMetadata("payments", "consumer", 6, None, None, 9, ())


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        pytest.param(WITH_TOPIC_ID, OFFSET_KEY, VALUE_V4, id="offset"),
        pytest.param(WITH_EXPIRY, OFFSET_KEY, VALUE_V1, id="offset with an expiry"),
        pytest.param(
            OffsetCommit(OffsetKey("", "t", 0), 0, None, "", 1),
            "0001000000017400000000",
            "00040000000000000000ffffffff01000000000000000100",
            id="offset with nothing beside it",
        ),
        pytest.param(OffsetTombstone(KEY), OFFSET_KEY, None, id="offset tombstone"),
        pytest.param(FULL_GROUP, GROUP_KEY, GROUP_V3, id="group"),
        pytest.param(EMPTY_GROUP, GROUP_KEY, EMPTY_GROUP_V3, id="empty group"),
        pytest.param(GroupTombstone("payments"), GROUP_KEY, None, id="group tombstone"),
    ],
)
def test_what_is_written_is_what_kafka_writes(record: GroupRecord, key: str, value: str | None) -> None:
    written_key, written_value = encode(record)

    assert (written_key.hex(), None if written_value is None else written_value.hex()) == (key, value)
    assert decode(written_key, written_value) == record


@pytest.mark.parametrize(
    ("key", "value", "record"),
    [
        pytest.param(OFFSET_KEY, VALUE_V0, BARE, id="offset v0"),
        pytest.param(OFFSET_KEY, VALUE_V1, WITH_EXPIRY, id="offset v1"),
        pytest.param(OFFSET_KEY, VALUE_V2, BARE, id="offset v2"),
        pytest.param(OFFSET_KEY, VALUE_V3, WITH_EPOCH, id="offset v3"),
        pytest.param(OFFSET_KEY, VALUE_V4, WITH_TOPIC_ID, id="offset v4"),
        pytest.param(LEGACY_OFFSET_KEY, VALUE_V0, BARE, id="offset of Kafka 0.8"),
        pytest.param(LEGACY_OFFSET_KEY, None, OffsetTombstone(KEY), id="offset tombstone of Kafka 0.8"),
        pytest.param(
            GROUP_KEY,
            GROUP_V0,
            group(changed_ms=None, instance_id=None, rebalance_timeout_ms=None),
            id="group v0",
        ),
        pytest.param(
            GROUP_KEY,
            GROUP_V1,
            group(changed_ms=None, instance_id=None, rebalance_timeout_ms=300_000),
            id="group v1",
        ),
        pytest.param(
            GROUP_KEY,
            GROUP_V2,
            group(changed_ms=COMMITTED_MS, instance_id=None, rebalance_timeout_ms=300_000),
            id="group v2",
        ),
        pytest.param(GROUP_KEY, GROUP_V3, FULL_GROUP, id="group v3"),
        pytest.param(GROUP_KEY, GROUP_V4, FULL_GROUP, id="group v4"),
    ],
)
def test_what_kafka_wrote_in_any_version_is_read(key: str, value: str | None, record: GroupRecord) -> None:
    assert decode(bytes.fromhex(key), None if value is None else bytes.fromhex(value)) == record


def test_a_tag_that_a_newer_broker_added_is_skipped() -> None:
    tagged = VALUE_V4.replace("01001001020304", "02001001020304") + "0502beef"

    assert decode(bytes.fromhex(OFFSET_KEY), bytes.fromhex(tagged)) == WITH_TOPIC_ID


def test_an_expiry_leaves_no_room_for_leader_epoch_and_topic_id() -> None:
    expiring = WITH_TOPIC_ID.expiring(EXPIRES_MS)

    assert expiring == WITH_EXPIRY
    assert decode(*encode(expiring)) == expiring


SERVED = {Kind.LEGACY_OFFSET_COMMIT, Kind.OFFSET_COMMIT, Kind.GROUP_METADATA, *KINDS}


@pytest.mark.parametrize(
    "kind", [Kind.CONSUMER_GROUP_PARTITION_METADATA, *(kind for kind in Kind if kind not in SERVED)]
)
def test_a_kind_that_is_not_served_is_passed_over(kind: Kind) -> None:
    key = kind.to_bytes(2, "big") + bytes.fromhex(GROUP_KEY)[2:]

    assert decode(key, bytes.fromhex("00000000000300")) is None
    assert decode(key, None) is None


def test_an_unknown_kind_is_passed_over_with_one_line_however_many_records_there_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        assert [decode(b"\x7a\xbc" + b"anything", b"\x00\x00") for _ in range(3)] == [None, None, None]

    assert [record.getMessage() for record in caplog.records] == [
        "records of kind 31420 (unknown) in __consumer_offsets are not served and passed over"
    ]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (None, VALUE_V4, "a record of __consumer_offsets without a key; every kind has one"),
        ("00", VALUE_V4, "key of 1 bytes in __consumer_offsets; it begins with a version of two bytes"),
        (OFFSET_KEY, "", "OffsetCommitValue of 0 bytes in __consumer_offsets; it begins with a version of two bytes"),
        (OFFSET_KEY, "0005" + VALUE_V4[4:], "OffsetCommitValue of version 5; 0 to 4 can be read"),
        (OFFSET_KEY, "ffff" + VALUE_V4[4:], "OffsetCommitValue of version -1; 0 to 4 can be read"),
        (GROUP_KEY, "0005" + GROUP_V4[4:], "GroupMetadataValue of version 5; 0 to 4 can be read"),
    ],
)
def test_a_record_that_cannot_be_read_is_an_error_and_not_an_older_offset(
    key: str | None, value: str, message: str
) -> None:
    with pytest.raises(DecodeError) as raised:
        decode(None if key is None else bytes.fromhex(key), bytes.fromhex(value))

    assert str(raised.value) == message


def test_a_value_cut_anywhere_is_an_error() -> None:
    key, value = bytes.fromhex(OFFSET_KEY), bytes.fromhex(VALUE_V4)
    for size in range(len(value)):
        with pytest.raises(DecodeError):
            decode(key, value[:size])
    for size in range(len(key)):
        with pytest.raises(DecodeError):
            decode(key[:size], value)
