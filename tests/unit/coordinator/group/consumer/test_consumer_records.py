"""The records of a consumer group, against bytes put together by hand from Kafka's formats."""

from __future__ import annotations

from uuid import UUID

import pytest

from semel.coordinator.group.consumer.records import (
    AssignedPartition,
    ClassicProtocols,
    ConsumerGroupTombstone,
    ConsumerMember,
    CurrentAssignment,
    GroupEpoch,
    MemberState,
    ResolvedRegex,
    Target,
    TargetEpoch,
)
from semel.coordinator.group.formats import Kind
from semel.coordinator.group.records import GroupRecord, decode, encode

TOPIC_ID = UUID("00112233-4455-6677-8899-aabbccddeeff")
ID = "00112233445566778899aabbccddeeff"
GROUP = "000167"  # "g"
MEMBER = "00016d"  # "m"

EXAMPLES: list[tuple[GroupRecord, str, str | None]] = [
    (GroupEpoch("g", 5), "0003" + GROUP, "0000" + "00000005" + "00"),
    (GroupEpoch("g", 5, 258), "0003" + GROUP, "0000" + "00000005" + "01" + "0008" + "0000000000000102"),
    (
        ConsumerMember("g", "m", None, None, "c", "/h", ("a", "b"), None, 300, "range"),
        "0005" + GROUP + MEMBER,
        "0000" + "00" + "00" + "0263" + "032f68" + "03" + "0261" + "0262" + "00" + "0000012c" + "0672616e6765" + "00",
    ),
    (
        ConsumerMember("g", "m", "i", "r", "c", "", (), "x", -1, None, ClassicProtocols(9, (("p", b"\x01"),))),
        "0005" + GROUP + MEMBER,
        "0000" + "0269" + "0272" + "0263" + "01" + "01" + "0278" + "ffffffff" + "00"
        # One tag: the length, the struct's marker, session timeout, one protocol.
        + "01" + "000c" + "01" + "00000009" + "02" + "0270" + "0201" + "00" + "00",
    ),
    (TargetEpoch("g", 5), "0006" + GROUP, "0000" + "00000005" + "00"),
    (TargetEpoch("g", 5, 3), "0006" + GROUP, "0000" + "00000005" + "01" + "0008" + "0000000000000003"),
    (
        Target("g", "m", frozenset({AssignedPartition(TOPIC_ID, 1), AssignedPartition(TOPIC_ID, 0)})),
        "0007" + GROUP + MEMBER,
        "0000" + "02" + ID + "03" + "00000000" + "00000001" + "00" + "00",
    ),
    (
        CurrentAssignment(
            "g",
            "m",
            6,
            5,
            MemberState.UNREVOKED_PARTITIONS,
            frozenset({AssignedPartition(TOPIC_ID, 1)}),
            frozenset({AssignedPartition(TOPIC_ID, 2)}),
        ),
        "0008" + GROUP + MEMBER,
        "0000" + "00000006" + "00000005" + "02"
        + "02" + ID + "02" + "00000001" + "00"
        + "02" + ID + "02" + "00000002" + "00" + "00",
    ),
    (
        ResolvedRegex("g", "o.*", ("o1",), 4, 3),
        "0010" + GROUP + "00036f2e2a",
        "0000" + "02" + "036f31" + "0000000000000004" + "0000000000000003" + "00",
    ),
    (ConsumerGroupTombstone(Kind.CONSUMER_GROUP_METADATA, "g"), "0003" + GROUP, None),
    (ConsumerGroupTombstone(Kind.CONSUMER_GROUP_MEMBER_METADATA, "g", "m"), "0005" + GROUP + MEMBER, None),
    (ConsumerGroupTombstone(Kind.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA, "g"), "0006" + GROUP, None),
    (ConsumerGroupTombstone(Kind.CONSUMER_GROUP_REGULAR_EXPRESSION, "g", "o.*"), "0010" + GROUP + "00036f2e2a", None),
]  # fmt: skip


@pytest.mark.parametrize(("record", "key", "value"), EXAMPLES, ids=lambda each: type(each).__name__)
def test_records_are_kafkas_bytes_both_ways(record: GroupRecord, key: str, value: str | None) -> None:
    encoded = bytes.fromhex(key), None if value is None else bytes.fromhex(value)

    assert encode(record) == encoded
    assert decode(*encoded) == record


def test_assignment_epochs_that_kafka_wrote_are_passed_over() -> None:
    """KIP-1251: a tagged field of every topic."""
    key = bytes.fromhex("0008" + GROUP + MEMBER)
    epochs = "01" + "0005" + "02" + "00000004"
    value = "0000" + "00000006" + "00000005" + "01" + "02" + ID + "02" + "00000001" + epochs + "01" + "00"

    expected = CurrentAssignment("g", "m", 6, 5, MemberState.STABLE, frozenset({AssignedPartition(TOPIC_ID, 1)}))
    assert decode(key, bytes.fromhex(value)) == expected


def test_partition_counts_of_kafka_4_0_are_passed_over() -> None:
    assert decode(bytes.fromhex("0004" + GROUP), b"\x00\x00 whatever") is None
