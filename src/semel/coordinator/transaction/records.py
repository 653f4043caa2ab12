"""The records of ``__transaction_state``: the state of a transactional id, or a tombstone that removes it.

A ``Transaction`` is both the record in the log and the state in memory: replay replaces the state by the record. The
law: what a restart decodes equals what was in memory. (At ``transaction.version`` 0 Kafka's format has no fields for
the previous and the next producer ids and epochs: a retry that spans a restart is then fenced.)

Three records are written for every transaction, and a start reads one for every known id. So the form that nearly all
of them have is packed and unpacked here directly; ``log_messages`` defines the format, and is used for all others.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from semel.coordinator.partitioning import REMEMBERED_CHARACTERS_MAX
from semel.coordinator.transaction.log_messages import (
    DERIVED_EPOCH,
    KEY_VERSION,
    VALUE_VERSION_MAX,
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)
from semel.coordinator.transaction.states import ENDED, IDLE, TxnState
from semel.errors import DecodeError
from semel.types import Buffer, TopicPartition
from semel.wire import codec

NO_PARTITIONS: Final[frozenset[TopicPartition]] = frozenset()
"""One object for all ids without an open transaction, of which there may be a million."""

EPOCH_MAX: Final = 2**15 - 1
"""The highest epoch. It is never given to a client: it is used to fence the highest epoch that a client can have."""

REMEMBERED_PARTITIONS_MAX: Final = 100
"""The number of partitions up to which a set of them is cached with its bytes. A transaction may have all partitions of
the cluster, and if they are added one by one, each addition makes another set."""

_log: Final = logging.getLogger(__name__)
_VERSION: Final = Struct(">h")
_ABSENT: Final = -1  # In the usual values only, which are packed and unpacked without the codec.

# The usual value, around its partitions. It ends with a tagged field or two: the previous producer id (tag 0, 8 bytes)
# and, unless that is 0, the version of transactions (tag 2, 2 bytes).
_VALUE_HEAD: Final = Struct(">hqhib")
_VALUE_TAIL_V1: Final = Struct(">qq3sq")
_VALUE_TAIL_V2: Final = Struct(">qq3sq2sh")
_ONE_TAG: Final = bytes((1, 0, 8))
_TWO_TAGS: Final = bytes((2, 0, 8))
_SECOND_TAG: Final = bytes((2, 2))
_TIMES_AND_NO_TAGS_BYTES: Final = 8 + 8 + 1
# The same value as a whole, without partitions: of an id that has no open transaction.
_IDLE_V1: Final = Struct(">hqhibBqq3sq")
_IDLE_V2: Final = Struct(">hqhibBqq3sq2sh")

# The bytes of such a value in an idle state: version, producer id and epoch, timeout, state, no partitions, two times,
# the tags.
_IDLE_TRANSACTION: Final = re.compile(
    rb"\x00\x01 .{8} .{2} .{4} [\x00\x04\x05] [\x00\x01] .{16} (?: \x01\x00\x08.{8} | \x02\x00\x08.{8} \x02\x02.{2} )",
    re.DOTALL | re.VERBOSE,
)
_KEY_VERSION_BYTES: Final = _VERSION.pack(KEY_VERSION)
_KEY_HEAD_BYTES: Final = 4
_WRITTEN: Final = {int(state): state for state in IDLE | ENDED | {TxnState.ONGOING}}


class Transaction(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    """The epoch that requests must carry; in a PREPARE state, the one that the markers carry."""

    last_producer_id: int | None
    """The producer id of the record before this one. Differs from ``producer_id`` only just after a rotation."""

    last_producer_epoch: int | None
    """The epoch from which this record bumped, at its owner's own request or when its transaction timed out: a
    producer that sends that epoch again repeats a request and is answered. ``None`` fences the previous producer of
    the id."""

    next_producer_id: int | None
    """In a PREPARE state, if the epochs are exhausted: the producer id with which the producer continues."""

    state: TxnState
    partitions: frozenset[TopicPartition]
    timeout_ms: int
    started_ms: int | None
    """When the first partition was added to the open transaction, or to the last one if none is open."""

    updated_ms: int
    client_transaction_version: int
    """The transaction version of the request that led to this record: with 2, the end of a transaction bumped the
    epoch."""

    def is_present(self, producer_id: int, producer_epoch: int) -> bool:
        return producer_epoch == self.producer_epoch and producer_id == self.producer_id

    def is_last(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether the present identity was bumped from this one: its owner lost the response and retries."""
        return producer_epoch == self.last_producer_epoch and producer_id == self.last_producer_id

    @property
    def epochs_exhausted(self) -> bool:
        """Whether the next bump of a client's epoch needs a new producer id."""
        return self.producer_epoch >= EPOCH_MAX - 1


@dataclass(frozen=True, slots=True)
class Tombstone:
    """Removes a transactional id."""

    transactional_id: str


class EncodedIdleTransaction(NamedTuple):
    """An idle ``Transaction`` as the bytes of its record: nothing is open, and no marker is to be written."""

    transactional_id: str
    value: bytes

    def transaction(self) -> Transaction:
        transaction = _usual_transaction(self.transactional_id, self.value)
        assert transaction is not None, self
        return transaction


TransactionRecord: TypeAlias = Transaction | Tombstone | EncodedIdleTransaction


def encode(record: TransactionRecord, *, transaction_version: int = 2) -> tuple[bytes, bytes | None]:
    """Return the key and the value in the log. The cluster's ``transaction.version`` decides the value's version."""
    key = _key(record.transactional_id)
    if isinstance(record, Tombstone):
        return key, None
    if isinstance(record, EncodedIdleTransaction):
        return key, record.value
    # A record of transactions V2 needs the fields of V2, whatever the cluster's ``transaction.version`` is.
    version = VALUE_VERSION_MAX if max(transaction_version, record.client_transaction_version) >= 1 else 0
    derived = record.last_producer_epoch == _derived_last_epoch(
        record.state,
        record.producer_id,
        record.producer_epoch,
        record.last_producer_id,
        record.client_transaction_version,
    )
    if derived and version and record.next_producer_id is None and record.last_producer_id is not None:
        return key, _usual_value(record)
    value = TransactionLogValue(
        producer_id=record.producer_id,
        previous_producer_id=record.last_producer_id,
        next_producer_id=record.next_producer_id,
        producer_epoch=record.producer_epoch,
        transaction_timeout_ms=record.timeout_ms,
        transaction_status=record.state,
        transaction_partitions=None if record.state is TxnState.EMPTY else _by_topic(record.partitions),
        transaction_last_update_timestamp_ms=record.updated_ms,
        transaction_start_timestamp_ms=record.started_ms,
        client_transaction_version=record.client_transaction_version,
        last_producer_epoch=DERIVED_EPOCH if derived else record.last_producer_epoch,
    )
    return key, _VERSION.pack(version) + codec.encode(value, version)


def _usual_value(record: Transaction) -> bytes:
    partitions = b"\0" if record.state is TxnState.EMPTY else _encoded_partitions(record.partitions)
    head = _VALUE_HEAD.pack(
        VALUE_VERSION_MAX, record.producer_id, record.producer_epoch, record.timeout_ms, record.state
    )
    times = record.updated_ms, _ABSENT if record.started_ms is None else record.started_ms
    version = record.client_transaction_version
    if version == 0:
        return head + partitions + _VALUE_TAIL_V1.pack(*times, _ONE_TAG, record.last_producer_id)
    return head + partitions + _VALUE_TAIL_V2.pack(*times, _TWO_TAGS, record.last_producer_id, _SECOND_TAG, version)


def _encoded_partitions(partitions: frozenset[TopicPartition]) -> bytes:
    is_small = len(partitions) <= REMEMBERED_PARTITIONS_MAX
    return (_remembered_partitions if is_small else _computed_partitions)(partitions)


def _computed_partitions(partitions: frozenset[TopicPartition]) -> bytes:
    encoded = codec.encode(TransactionLogValue(transaction_partitions=_by_topic(partitions)), VALUE_VERSION_MAX)
    return bytes(encoded[_VALUE_HEAD.size - _VERSION.size : -_TIMES_AND_NO_TAGS_BYTES])


# A producer writes to the same partitions in many transactions.
_remembered_partitions: Final = lru_cache(maxsize=1024)(_computed_partitions)


def _key(transactional_id: str) -> bytes:
    is_short = len(transactional_id) <= REMEMBERED_CHARACTERS_MAX
    return (_remembered_key if is_short else _computed_key)(transactional_id)


def _computed_key(transactional_id: str) -> bytes:
    return _VERSION.pack(KEY_VERSION) + codec.encode(TransactionLogKey(transactional_id), KEY_VERSION)


_remembered_key: Final = lru_cache(maxsize=4096)(_computed_key)


def decode(key: Buffer | None, value: Buffer | None) -> Transaction | Tombstone | None:
    """Return the record; ``None``, with a warning, if this version of Semel does not know the record's version.

    A newer broker may have written it, and its meaning cannot be guessed. Raises ``DecodeError`` if it is malformed.
    """
    if key is None:
        raise DecodeError("a record of __transaction_state without a key: it belongs to no transactional id")
    if (version := _version(key, "key")) != KEY_VERSION:
        _log.warning("a record of __transaction_state is skipped: key version %d is not known, only 0 is", version)
        return None
    transactional_id = _transactional_id(key)
    if value is None:
        return Tombstone(transactional_id)
    if (usual := _usual_transaction(transactional_id, value)) is not None:
        return usual
    if not 0 <= (version := _version(value, "value")) <= VALUE_VERSION_MAX:
        _log.warning(
            "a record of __transaction_state for %r is skipped: value version %d is not known, only 0 to %d are",
            transactional_id,
            version,
            VALUE_VERSION_MAX,
        )
        return None
    return _transaction(transactional_id, codec.decode(TransactionLogValue, value, version, _VERSION.size))


def decode_to_load(key: Buffer | None, value: Buffer | None) -> TransactionRecord | None:
    """Like ``decode``, but keeps an idle transaction encoded: most of them are never used after a start."""
    if (
        key is not None
        and value is not None
        and _IDLE_TRANSACTION.fullmatch(value)
        and key[: _VERSION.size] == _KEY_VERSION_BYTES
    ):
        return EncodedIdleTransaction(_transactional_id(key), bytes(value))
    return decode(key, value)


def _transactional_id(key: Buffer) -> str:
    if int.from_bytes(key[_VERSION.size : _KEY_HEAD_BYTES], "big") == len(key) - _KEY_HEAD_BYTES:
        try:
            return str(key[_KEY_HEAD_BYTES:], "utf-8")
        except UnicodeDecodeError:
            pass  # The codec raises the error, as for any other field.
    return codec.decode(TransactionLogKey, key, KEY_VERSION, _VERSION.size).transactional_id


def _usual_transaction(transactional_id: str, value: Buffer) -> Transaction | None:
    """Decode a value without partitions and with the usual tags. Returns ``None`` for any other value."""
    if len(value) == _IDLE_V2.size:
        fields = _IDLE_V2.unpack(value)
        if fields[8] != _TWO_TAGS or fields[10] != _SECOND_TAG:
            return None
        client_transaction_version = fields[11]
    elif len(value) == _IDLE_V1.size:
        fields = _IDLE_V1.unpack(value)
        if fields[8] != _ONE_TAG:
            return None
        client_transaction_version = 0
    else:
        return None
    version, producer_id, producer_epoch, timeout_ms, status, count, updated_ms, started_ms = fields[:8]
    last_producer_id = None if fields[9] == _ABSENT else fields[9]
    state = _WRITTEN.get(status)
    # The length of an array is written plus one, and 0 for null.
    if version != VALUE_VERSION_MAX or count > 1 or state is None:
        return None
    return Transaction(
        transactional_id,
        producer_id,
        producer_epoch,
        producer_id if last_producer_id == producer_id else last_producer_id,
        _derived_last_epoch(state, producer_id, producer_epoch, last_producer_id, client_transaction_version),
        None,
        state,
        NO_PARTITIONS,
        _the_same(timeout_ms),
        None if started_ms == _ABSENT else started_ms,
        updated_ms,
        client_transaction_version,
    )


def _transaction(transactional_id: str, value: TransactionLogValue) -> Transaction:
    state = _WRITTEN.get(value.transaction_status)
    if state is None:
        raise DecodeError(f"transaction {transactional_id!r} has status {value.transaction_status}: no such is written")
    producer_id = value.producer_id
    last_producer_id = producer_id if value.previous_producer_id == producer_id else value.previous_producer_id
    last_producer_epoch = value.last_producer_epoch
    if value.last_producer_epoch == DERIVED_EPOCH:
        last_producer_epoch = _derived_last_epoch(
            state, producer_id, value.producer_epoch, last_producer_id, value.client_transaction_version
        )
    # No partitions are written for an EMPTY transaction: those in a damaged record are ignored.
    topics = None if state is TxnState.EMPTY else value.transaction_partitions
    return Transaction(
        transactional_id,
        producer_id,
        value.producer_epoch,
        last_producer_id,
        last_producer_epoch,
        value.next_producer_id,
        state,
        _flat(topics) if topics else NO_PARTITIONS,
        _the_same(value.transaction_timeout_ms),
        value.transaction_start_timestamp_ms,
        value.transaction_last_update_timestamp_ms,
        value.client_transaction_version,
    )


def _derived_last_epoch(
    state: TxnState, producer_id: int, producer_epoch: int, last_producer_id: int | None, transaction_version: int
) -> int | None:
    """Return the last producer epoch that Kafka's fields imply: V2 bumps the epoch by one when a transaction ends."""
    if transaction_version < 2 or state not in ENDED:
        return None
    if last_producer_id is not None and last_producer_id != producer_id:
        return EPOCH_MAX - 1
    return producer_epoch - 1 if producer_epoch > 0 else None


def _by_topic(partitions: frozenset[TopicPartition]) -> list[PartitionsSchema]:
    by_topic = groupby(sorted(partitions), key=lambda partition: partition.topic)
    return [PartitionsSchema(topic, [partition.partition for partition in group]) for topic, group in by_topic]


def _flat(topics: list[PartitionsSchema]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic.topic, partition) for topic in topics for partition in topic.partition_ids)


def _version(data: Buffer, what: str) -> int:
    if len(data) < _VERSION.size:
        raise DecodeError(f"a {what} of __transaction_state has {len(data)} bytes: a version takes {_VERSION.size}")
    version: int = _VERSION.unpack_from(data)[0]
    return version


@lru_cache(maxsize=256)
def _the_same(value: int) -> int:
    return value
