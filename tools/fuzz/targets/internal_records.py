"""Targets for records of the internal topics: ``__transaction_state`` and ``__consumer_offsets``.

An input is a key and a value: two bytes with the length of the key, the key, and the value. The length 0xFFFF means no
key; an empty value means a tombstone.
"""

from __future__ import annotations

import struct
from random import Random
from typing import Any, Final
from uuid import UUID

from semel.coordinator.group import records as group_records
from semel.coordinator.group.consumer import records as consumer_records
from semel.coordinator.group.consumer.records import AssignedPartition, MemberState
from semel.coordinator.group.formats import Kind
from semel.coordinator.transaction import records as transaction_records
from semel.coordinator.transaction.records import EncodedIdleTransaction, Tombstone, Transaction
from semel.coordinator.transaction.states import ENDED, IDLE, TxnState
from semel.types import TopicPartition
from tools.fuzz.target import Target

_NO_KEY: Final = 0xFFFF
_TIME: Final = 1_700_000_000_000
_NAMES: Final = ("", "a", "id-1", "é", "x" * 200)
_STATES: Final = sorted(IDLE | ENDED | {TxnState.ONGOING})


def targets() -> list[Target]:
    return [
        Target("__transaction_state", _transaction, _check_transaction, rounds=32),
        Target("__consumer_offsets", _group_record, _check_group_record, rounds=48),
    ]


def _packed(key: bytes, value: bytes | None) -> bytes:
    return struct.pack(">H", len(key)) + key + (value or b"")


def _unpacked(data: bytes) -> tuple[bytes | None, bytes | None]:
    size = int.from_bytes(data[:2], "big")
    if size == _NO_KEY:
        return None, data[2:] or None
    return data[2 : 2 + size], data[2 + size :] or None


def _transaction(random: Random) -> bytes:
    name = random.choice(_NAMES)
    if random.random() < 0.1:
        return _packed(*transaction_records.encode(Tombstone(name)))
    state = random.choice(_STATES)
    partitions = [TopicPartition(random.choice(_NAMES), random.randrange(4)) for _ in range(random.randrange(4))]
    record = Transaction(
        name,
        random.randrange(10**6),
        random.choice((0, 1, 2**15 - 2)),
        random.choice((None, 7)),
        random.choice((None, 0, 6)),
        random.choice((None, 8)),
        state,
        frozenset() if state in IDLE else frozenset(partitions),
        random.choice((1, 60_000)),
        random.choice((None, _TIME)),
        _TIME,
        random.choice((0, 1, 2)),
    )
    return _packed(*transaction_records.encode(record, transaction_version=random.randrange(3)))


def _check_transaction(data: bytes) -> None:
    key, value = _unpacked(data)
    record = transaction_records.decode(key, value)
    to_load = transaction_records.decode_to_load(key, value)
    if isinstance(to_load, EncodedIdleTransaction):
        to_load = to_load.transaction()
    assert to_load == record, f"a start reads {to_load}, otherwise it is {record}"
    if record is None:
        return
    again = transaction_records.decode(*transaction_records.encode(record))
    assert again == record, f"{record} became {again}"


def _group_record(random: Random) -> bytes:
    return _packed(*group_records.encode(_any_group_record(random)))


def _any_group_record(random: Random) -> Any:
    group, name = random.choice(_NAMES), random.choice(_NAMES)
    assigned = frozenset(
        AssignedPartition(UUID(int=random.getrandbits(2)), random.randrange(4)) for _ in range(random.randrange(4))
    )
    match random.randrange(9):
        case 0:
            key = group_records.OffsetKey(group, name, random.randrange(4))
            commit = group_records.OffsetCommit(key, random.getrandbits(40), random.choice((None, 3)), name, _TIME)
            return commit.expiring(_TIME) if random.random() < 0.3 else commit
        case 1:
            return group_records.OffsetTombstone(group_records.OffsetKey(group, name, 0))
        case 2:
            member = group_records.Member(name, random.choice((None, "i")), "c", "h", 5, 6, b"\0\0", b"")
            members = (member,) * random.randrange(3)
            return group_records.GroupMetadata(
                group, "consumer", 3, random.choice((None, "range")), name, _TIME, members
            )
        case 3:
            return consumer_records.GroupEpoch(group, 5, random.getrandbits(60))
        case 4:
            classic = consumer_records.ClassicProtocols(10, (("range", b"\0"),)) if random.random() < 0.5 else None
            return consumer_records.ConsumerMember(
                group, name, None, "rack", "c", "h", ("a", "b"), random.choice((None, "a.*")), 7, "uniform", classic
            )
        case 5:
            return consumer_records.Target(group, name, assigned)
        case 6:
            state = random.choice((MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS))
            return consumer_records.CurrentAssignment(group, name, 5, 4, state, assigned, frozenset())
        case 7:
            return consumer_records.ResolvedRegex(group, "a.*", ("a", "ab"), 3, _TIME)
        case _:
            kind = random.choice((Kind.CONSUMER_GROUP_METADATA, Kind.CONSUMER_GROUP_MEMBER_METADATA))
            name_or_none = None if kind is Kind.CONSUMER_GROUP_METADATA else name
            return consumer_records.ConsumerGroupTombstone(kind, group, name_or_none)


def _check_group_record(data: bytes) -> None:
    record = group_records.decode(*_unpacked(data))
    if record is None:
        return
    again = group_records.decode(*group_records.encode(record))
    assert again == record, f"{record} became {again}"
