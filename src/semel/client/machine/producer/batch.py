"""A batch of records of one partition: collected, numbered, sent until it is settled.

collecting --seal--> sealed (has its bytes) --sent--> on the wire --> settled, or sealed again for the next attempt
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any, Final, NamedTuple, TypeAlias

from semel.client.machine.connection.promise import Promise
from semel.client.machine.producer.sequences import Numbers, advanced
from semel.types import TopicPartition
from semel.wire.crc import crc32c
from semel.wire.records import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    HEADER_SIZE,
    PRODUCER_ID_POSITION,
    BatchBuilder,
    Codec,
    Headers,
    Record,
    build_batch,
    iterate_records,
    parse_header,
)

Delivery: TypeAlias = Any
"""What the driver gets back when the record is settled. The machine never looks at it."""

_PRODUCER: Final = Struct(">qhi")
_CRC: Final = Struct(">I")


class Acknowledged(NamedTuple):
    """The outcome of a batch that was written.

    A field is ``None`` if the broker did not say: acks=0, or a duplicate.
    """

    base_offset: int | None
    log_append_time_ms: int | None


class Settlement(NamedTuple):
    """The outcome of records that are settled, and what is needed to report it to the callers that sent them."""

    topic: str
    partition: int | None
    deliveries: list[Delivery]
    timestamps: list[int]
    outcome: Acknowledged | Exception
    bulk_count: int | None = None
    """The number of records that share the only delivery; ``None`` if every record has a delivery of its own."""


class ProducerBatch:
    __slots__ = (
        "attempts",
        "builder",
        "created_ms",
        "deliveries",
        "flushes",
        "in_doubt",
        "is_bulk",
        "last_answer",
        "numbers",
        "on_wire",
        "outcome",
        "record_count",
        "records",
        "retry_ms",
        "size_bytes",
        "timestamps",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition, builder: BatchBuilder | None, created_ms: float) -> None:
        self.topic_partition = topic_partition
        self.created_ms = created_ms
        self.deliveries: list[Delivery] = []
        self.timestamps: list[int] = []
        self.record_count = 0
        self.size_bytes = HEADER_SIZE
        self.records: bytes | None = None
        self.numbers: Numbers | None = None
        self.attempts = 0
        self.last_answer: str | None = None  # The end of the last attempt, for the message of a timeout.
        self.retry_ms = 0.0
        self.on_wire = False
        self.in_doubt = False
        """Whether an attempt ended without an answer that rules out that the batch was written."""
        self.outcome: Acknowledged | Exception | None = None
        self.flushes: list[Flush] = []
        self.is_bulk = False
        """Whether all records share one delivery."""
        self.builder = builder

    @classmethod
    def built(
        cls, topic_partition: TopicPartition, records: bytes, count: int, delivery: Delivery, created_ms: float
    ) -> ProducerBatch:
        """Return a batch of records that were encoded elsewhere; one delivery is shared by all of them."""
        batch = cls(topic_partition, None, created_ms)
        batch.records, batch.size_bytes, batch.record_count, batch.is_bulk = records, len(records), count, True
        batch.deliveries.append(delivery)
        batch.timestamps.append(parse_header(records).max_timestamp)
        return batch

    @property
    def count(self) -> int:
        """How many records it holds so far."""
        return self.record_count or len(self.deliveries)

    def append(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: Headers, delivery: Delivery
    ) -> bool:
        """Add a record. Returns ``False`` if there is no room for it in the batch."""
        builder = self.builder
        assert builder is not None
        if not builder.append(timestamp, key, value, headers):
            return False
        self.size_bytes = builder.size_bytes
        self.deliveries.append(delivery)
        self.timestamps.append(timestamp)
        return True

    def seal(self, numbers: Numbers | None, *, is_transactional: bool = False) -> None:
        """Set the sequence numbers of the batch and encode it. After that it takes no more records."""
        self.numbers = numbers
        if self.builder is None:
            assert self.records is not None
            if numbers is not None:
                self.records = _renumbered(self.records, numbers)
            return
        self.record_count = len(self.deliveries)
        if numbers is None:
            self.records = self.builder.build()
        else:
            self.records = self.builder.build(
                producer_id=numbers.identity.producer_id,
                producer_epoch=numbers.identity.producer_epoch,
                base_sequence=numbers.base_sequence,
                is_transactional=is_transactional,
            )
        self.builder = None

    def split(self) -> Iterator[ProducerBatch]:
        """Yield two batches with the same records and the same sequences, each half as large."""
        assert self.records is not None
        records = tuple(iterate_records(self.records))
        middle = len(records) // 2
        codec = parse_header(self.records).compression
        is_transactional = parse_header(self.records).is_transactional
        for part, start in ((records[:middle], 0), (records[middle:], middle)):
            half = ProducerBatch(self.topic_partition, None, self.created_ms)
            half.records = _built(part, codec, is_transactional)
            half.size_bytes = len(half.records)
            half.record_count = len(part)
            half.is_bulk = self.is_bulk
            half.deliveries = self.deliveries if self.is_bulk else self.deliveries[start : start + len(part)]
            half.timestamps = self.timestamps if self.is_bulk else self.timestamps[start : start + len(part)]
            half.attempts = self.attempts
            half.flushes = list(self.flushes)
            for flush in half.flushes:
                flush.wait_for_one_more()
            if self.numbers is not None:
                half.seal(Numbers(self.numbers.identity, advanced(self.numbers.base_sequence, start)))
            yield half

    def __repr__(self) -> str:
        return f"ProducerBatch({self.topic_partition}, {self.count} records, {self.numbers}, {self.outcome})"


class Flush:
    """A call of ``flush``, which counts what it waits for. ``promise`` is kept when all of that is settled."""

    __slots__ = ("_remaining", "promise")

    def __init__(self) -> None:
        self.promise: Promise[None] = Promise()
        self._remaining = 1

    def wait_for_one_more(self) -> None:
        self._remaining += 1

    def one_is_settled(self) -> None:
        self._remaining -= 1
        if self._remaining == 0:
            self.promise.fulfil(None)


def _built(records: tuple[Record, ...], codec: Codec, is_transactional: bool) -> bytes:
    counted = (record._replace(offset=offset) for offset, record in enumerate(records))
    return build_batch(counted, codec=codec, is_transactional=is_transactional)


def _renumbered(records: bytes, numbers: Numbers) -> bytes:
    """Return the batch with other numbers. The old bytes are not changed, because an attempt may still be in flight."""
    header, behind = bytearray(records[:HEADER_SIZE]), memoryview(records)[HEADER_SIZE:]
    _PRODUCER.pack_into(header, PRODUCER_ID_POSITION, *numbers.identity, numbers.base_sequence)
    _CRC.pack_into(header, CRC_POSITION, crc32c(behind, crc32c(memoryview(header)[ATTRIBUTES_POSITION:])))
    return b"".join((header, behind))
