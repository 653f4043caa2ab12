"""A batch of a Produce request: the records for one partition, and the outcome of their append.

Both parsers return this value: ``in_place_parser`` from the bytes of the common request, ``requests/handlers/produce``
from a decoded message.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from semel.broker.node import Node
from semel.broker.partitions.partitions import Partition
from semel.errors import ErrorCode, KafkaError, StorageError
from semel.log.batch_check import BRIEF_BYTES_MAX, BatchCheck
from semel.log.outcomes import Appended
from semel.types import INTERNAL_TOPICS, ProducerIdentity
from semel.wire.records import CODEC_MASK, HEADER_SIZE, MAGIC_V2, TRANSACTIONAL_BIT, BatchHeader

ZSTD_SINCE: Final = 7
TRANSACTIONS_V2_SINCE: Final = 12
TOPIC_IDS_SINCE: Final = 13


class Uncommitted(NamedTuple):
    """The outcome of a batch that was appended, and of which it is not known whether it is committed."""

    code: ErrorCode
    log_start_offset: int


Outcome: TypeAlias = Appended | Uncommitted | KafkaError | StorageError


class ProduceBatch:
    """The batch of a Produce request for one partition.

    ``partition`` is None if the topic or partition cannot be written to; then ``outcome`` is the error.
    """

    __slots__ = ("check", "header", "index", "is_brief", "outcome", "partition", "records")

    def __init__(
        self, index: int, records: memoryview | None, partition: Partition | None, error: KafkaError | None = None
    ) -> None:
        self.index = index
        self.records = records
        self.partition = partition
        self.header: BatchHeader | None = None
        """The header of the batch, read once and not checked: the log checks it. None if there are too few bytes."""
        self.is_brief = True
        """Whether the log can check the records while it appends them, without occupying the event loop for long."""
        if records is not None and (size := len(records)) >= HEADER_SIZE:
            self.header = header = BatchHeader.read(records)
            self.is_brief = size <= BRIEF_BYTES_MAX and not header.attributes & CODEC_MASK
        self.check: BatchCheck | None = None
        """The check of the records, if it was begun before they are appended."""
        self.outcome: Outcome | None = error

    @property
    def is_transactional(self) -> bool:
        header = self.header
        return header is not None and header.magic == MAGIC_V2 and bool(header.attributes & TRANSACTIONAL_BIT)

    @property
    def producer(self) -> ProducerIdentity | None:
        """The producer of a transactional batch. None for any other batch, and for bytes that are no batch."""
        header = self.header
        if header is None or header.magic != MAGIC_V2 or not header.attributes & TRANSACTIONAL_BIT:
            return None
        return ProducerIdentity(header.producer_id, header.producer_epoch) if header.producer_id >= 0 else None

    def keep(self) -> None:
        """Copy the records: the buffer that they arrived in is needed for the next requests."""
        if self.check is not None:
            self.records = self.check.keep()
        elif self.records is not None:
            self.records = memoryview(bytearray(self.records))


def writable_partition(node: Node, version: int, topic: str, topic_id: UUID, index: int) -> Partition:
    """Return the partition that a Produce request of this version names. Raises KafkaError if it is not writable."""
    if version >= TOPIC_IDS_SINCE:
        known = node.image.topics_by_id.get(topic_id)
        if known is None:
            raise unknown_topic_id(topic_id)
        topic = known.name
    if topic in INTERNAL_TOPICS:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is an internal topic; only its coordinator writes to it"
        )
    return node.led_partition(topic, index)


def unknown_topic_id(topic_id: UUID) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {topic_id}")
