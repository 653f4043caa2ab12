"""The bytes that consumers of a group exchange: by hand, in every version, and as kio and aiokafka write them."""

from __future__ import annotations

import dataclasses
import importlib
import io
from typing import Any

import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata
from hypothesis import given, settings
from kio.serial import entity_writer

from semel.errors import DecodeError
from semel.types import TopicPartition
from semel.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolPartitions,
    ConsumerProtocolSubscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    flattened,
    grouped,
)
from tests.properties.wire.message_strategies import as_of, messages

pytestmark = pytest.mark.filterwarnings("ignore:open_text is deprecated")

SUBSCRIPTION = ConsumerProtocolSubscription(["t"], b"u", [ConsumerProtocolPartitions("t", [0, 2])], 7, "r")
TOPICS_AND_USER_DATA = "00000001 0001 74  00000001 75"
OWNED = "00000001 0001 74 00000002 00000000 00000002"


@pytest.mark.parametrize(
    ("version", "encoded"),
    [
        (0, f"0000 {TOPICS_AND_USER_DATA}"),
        (1, f"0001 {TOPICS_AND_USER_DATA} {OWNED}"),
        (2, f"0002 {TOPICS_AND_USER_DATA} {OWNED} 00000007"),
        (3, f"0003 {TOPICS_AND_USER_DATA} {OWNED} 00000007 0001 72"),
    ],
)
def test_a_subscription_in_each_version(version: int, encoded: str) -> None:
    assert encode_subscription(SUBSCRIPTION, version) == bytes.fromhex(encoded)
    assert decode_subscription(bytes.fromhex(encoded)) == as_of(SUBSCRIPTION, version)


@pytest.mark.parametrize("version", range(4))
def test_an_assignment_is_the_same_in_all_versions_but_for_the_version(version: int) -> None:
    assignment = ConsumerProtocolAssignment([ConsumerProtocolPartitions("t", [0, 2])])
    encoded = bytes.fromhex(f"000{version} {OWNED} ffffffff")
    assert encode_assignment(assignment, version) == encoded
    assert decode_assignment(encoded) == assignment


def test_a_version_of_the_future_is_read_as_the_newest_that_is_known() -> None:
    encoded = encode_subscription(SUBSCRIPTION)
    assert decode_subscription(bytes.fromhex("0009") + encoded[2:] + b"what version 9 added") == SUBSCRIPTION


def test_what_is_behind_an_old_version_is_passed_over_as_kafka_does() -> None:
    assert decode_subscription(encode_subscription(SUBSCRIPTION, 0) + b"more").topics == ["t"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "0 bytes; a version takes 2"),
        (b"\0", "1 bytes; a version takes 2"),
        (b"\xff\xff\0\0\0\0", "version -1; versions are counted from 0"),
        (b"\0\1\0\0\0\0\xff\xff\xff\xff", "ConsumerProtocolSubscription v1, byte 10"),
        (b"\0\0\x7f\xff\xff\xff", "count 2147483647"),
    ],
)
def test_bytes_that_are_no_subscription_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(DecodeError, match=message):
        decode_subscription(data)


def test_a_member_that_the_leader_left_out_has_no_partitions() -> None:
    assert decode_assignment(b"") == ConsumerProtocolAssignment()


def test_partitions_are_written_in_order_so_that_equal_sets_are_equal_bytes() -> None:
    partitions = {TopicPartition("b", 1), TopicPartition("a", 10), TopicPartition("a", 2)}
    assert grouped(partitions) == [ConsumerProtocolPartitions("a", [2, 10]), ConsumerProtocolPartitions("b", [1])]
    assert flattened(grouped(partitions)) == sorted(partitions)


@settings(max_examples=30, derandomize=True, database=None)
@given(subscription=messages(ConsumerProtocolSubscription), assignment=messages(ConsumerProtocolAssignment))
def test_kio_writes_the_same_bytes(
    subscription: ConsumerProtocolSubscription, assignment: ConsumerProtocolAssignment
) -> None:
    for version in range(4):
        prefix = version.to_bytes(2, "big")
        assert encode_subscription(subscription, version) == prefix + with_kio(subscription, version)
        assert encode_assignment(assignment, version) == prefix + with_kio(assignment, version)
        assert decode_subscription(encode_subscription(subscription, version)) == as_of(subscription, version)
        assert decode_assignment(encode_assignment(assignment, version)) == assignment


def test_aiokafka_reads_and_writes_version_0() -> None:
    read = ConsumerProtocolMemberMetadata.decode(encode_subscription(SUBSCRIPTION, 0))
    assert (read.version, read.subscription, read.user_data) == (0, ["t"], b"u")
    written = ConsumerProtocolMemberAssignment(0, [("t", [1, 2])], b"").encode()
    assert flattened(decode_assignment(written).assigned_partitions) == [TopicPartition("t", 1), TopicPartition("t", 2)]


def with_kio(message: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int) -> bytes:
    name = type(message).__name__
    kind = name.removeprefix("ConsumerProtocol").lower()
    module: Any = importlib.import_module(f"kio.schema.consumer_protocol_{kind}.v{version}.data")
    values: dict[str, Any] = {}
    for field in (field.name for field in dataclasses.fields(getattr(module, name))):
        value = getattr(message, field)
        if isinstance(value, list):
            value = tuple(
                module.TopicPartition(topic=entry.topic, partitions=tuple(entry.partitions))
                if isinstance(entry, ConsumerProtocolPartitions)
                else entry
                for entry in value
            )
        values[field] = -1 if field == "generation_id" and value is None else value
    out = io.BytesIO()
    entity_writer(getattr(module, name))(out, getattr(module, name)(**values))
    return out.getvalue()
