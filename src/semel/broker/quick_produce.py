"""The Produce request that nearly all Produce requests are, served without taking it apart.

One topic and one partition: then everything that matters lies at positions that can be computed, and the answer differs
from the last one in four numbers. Whatever is different in any way is left alone, and the ordinary way
(``handlers.produce``) serves it; so is a batch of a transaction, unless the partition's gate is open for it.

The law: both ways give the same answers, byte for byte. Nothing is decided here that is not decided there.
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from semel.broker.connection import Connection
from semel.broker.metrics import Histogram
from semel.broker.node import Node
from semel.broker.partitions import Partition
from semel.broker.produce_frame import API, FLEXIBLE_SINCE, TOPIC_IDS_SINCE, usual_produce
from semel.broker.transaction_gate import ProducerIdentity
from semel.errors import ErrorCode, KafkaError, StorageError
from semel.types import INTERNAL_TOPICS, ZERO_UUID, Buffer
from semel.wire.framing import encode_response
from semel.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from semel.wire.records import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    HEADER_SIZE,
    PRODUCER_ID_POSITION,
    TRANSACTIONAL_BIT,
    Codec,
)

LOG_START_OFFSET_SINCE: Final = 5
ZSTD_SINCE: Final = 7
TRANSACTIONS_V2_SINCE: Final = 12


_LENGTH: Final = Struct(">h")
_INDEX: Final = Struct(">i")
_PRODUCER: Final = Struct(">qh")  # id and epoch
_OFFSETS: Final = Struct(">qqq")  # base offset, log append time, log start offset
_OFFSETS_WITHOUT_START: Final = Struct(">qq")
_CORRELATION_ID: Final = Struct(">i")
_CORRELATION_ID_POSITION: Final = 4
_INDEX_AND_MARK: Final = Struct(">ihq")
_MARK: Final = 0x5E4E4C0FF5E7A55E  # Stands where the offset goes until that is known.
_NONE: Final = -1


class QuickProduce:
    def __init__(self, node: Node, time: Histogram) -> None:
        self._node = node
        self._time = time
        self._targets: dict[tuple[int, bytes], _Target] = {}
        self._generation = -1

    def serve(self, connection: Connection, frame: memoryview) -> bool:
        """Serve the request if it is of the usual kind. False: it was left alone, and nothing was changed."""
        try:
            usual = usual_produce(frame)
            if usual is None:
                return False
            version, correlation_id, transactional_id, acks, timeout_ms, named, start, stop = usual
            if stop - start < HEADER_SIZE:
                return False
            attributes = frame[start + ATTRIBUTES_POSITION + 1]
            target = self._target(version, named)
        except (IndexError, struct.error, UnicodeDecodeError):
            return False
        if target is None or (version < ZSTD_SINCE and attributes & CODEC_MASK == Codec.ZSTD):
            return False
        node, partition = self._node, target.partition
        is_transactional = attributes & TRANSACTIONAL_BIT != 0
        if transactional_id is not None or is_transactional:
            if transactional_id is None or not is_transactional:
                return False
            producer = ProducerIdentity(*_PRODUCER.unpack_from(frame, start + PRODUCER_ID_POSITION))
            if not partition.gate.is_open(transactional_id, producer):
                return False
        try:
            appended = partition.append(
                frame[start:stop],
                now_ms=node.clock.now_ms(),
                require_zero_first=is_transactional and version >= TRANSACTIONS_V2_SINCE,
            )
        except (KafkaError, StorageError) as error:
            self._refuse(connection, correlation_id, target, acks, error)
            return True
        base_offset, last_offset, time_ms, log_start_offset, duplicate = appended
        metrics = node.metrics
        if duplicate:
            metrics.duplicate_batches.value += 1
        else:
            metrics.appended_batches.value += 1
            metrics.appended_records.value += last_offset - base_offset + 1
            metrics.appended_bytes.value += stop - start
        if acks == 0:
            return True
        answer = bytearray(target.answer)
        _CORRELATION_ID.pack_into(answer, _CORRELATION_ID_POSITION, correlation_id)
        if time_ms is None:
            time_ms = _NONE
        if version >= LOG_START_OFFSET_SINCE:
            _OFFSETS.pack_into(answer, target.offsets_position, base_offset, time_ms, log_start_offset)
        else:
            _OFFSETS_WITHOUT_START.pack_into(answer, target.offsets_position, base_offset, time_ms)
        if partition.log.high_watermark > last_offset:
            self._time.observe((connection.now_ms() - connection.active_at_ms) / 1000)
            connection.reply([answer])
        else:
            waiting = _Waiting(connection, target, answer, self._time)
            waiting.wait(node, timeout_ms)
            partition.when_committed(last_offset, waiting, None)
        return True

    def _refuse(
        self, connection: Connection, correlation_id: int, target: _Target, acks: int, error: KafkaError | StorageError
    ) -> None:
        if acks == 0:
            connection.close()
            return
        code, text = ErrorCode.KAFKA_STORAGE_ERROR, str(error)
        if isinstance(error, KafkaError):
            code, text = error.code, error.message
        self._time.observe((connection.now_ms() - connection.active_at_ms) / 1000)
        connection.reply([target.refusal(correlation_id, code, text)])

    def _target(self, version: int, named: bytes) -> _Target | None:
        partitions = self._node.partitions
        if partitions.generation != self._generation:
            self._targets.clear()
            self._generation = partitions.generation
        target = self._targets.get((version, named))
        if target is None:
            target = self._look_up(version, named)
            if target is not None:
                self._targets[version, named] = target
        return target

    def _look_up(self, version: int, named: bytes) -> _Target | None:
        (index,) = _INDEX.unpack_from(named, len(named) - _INDEX.size)
        topic_id = ZERO_UUID
        if version >= TOPIC_IDS_SINCE:
            topic_id = UUID(bytes=named[:16])
            known = self._node.image.topics_by_id.get(topic_id)
            name = "" if known is None else known.name
        elif version >= FLEXIBLE_SINCE:
            name = str(named[1 : named[0]], "utf-8")
        else:
            name = str(named[2 : 2 + _LENGTH.unpack_from(named)[0]], "utf-8")
        partition = self._node.partitions.get(name, index)
        if partition is None or name in INTERNAL_TOPICS:
            return None
        return _Target.of(partition, version, "" if version >= TOPIC_IDS_SINCE else name, topic_id, index)


class _Target(NamedTuple):
    """A partition as it is named in requests of one version, and the answer to such a request, but for its numbers."""

    partition: Partition
    version: int
    topic: str
    topic_id: UUID
    partition_index: int
    answer: bytes
    offsets_position: int

    @classmethod
    def of(cls, partition: Partition, version: int, topic: str, topic_id: UUID, index: int) -> _Target:
        marked = PartitionProduceResponse(index=index, base_offset=_MARK)
        answer = _encoded(0, version, topic, topic_id, marked)
        return cls(
            partition,
            version,
            topic,
            topic_id,
            index,
            answer,
            answer.rindex(_INDEX_AND_MARK.pack(index, 0, _MARK)) + _INDEX_AND_MARK.size - 8,
        )

    def refusal(
        self, correlation_id: int, code: ErrorCode, text: str | None = None, log_start_offset: int = _NONE
    ) -> bytes:
        refused = PartitionProduceResponse(
            index=self.partition_index,
            error_code=code,
            base_offset=_NONE,
            log_start_offset=log_start_offset,
            error_message=text,
        )
        return _encoded(correlation_id, self.version, self.topic, self.topic_id, refused)


class _Waiting:
    """The request, once its records are appended and not yet safe: its place in the line, and who is told."""

    __slots__ = ("_answer", "_connection", "_deadlines", "_received_at_ms", "_target", "_ticket", "_time", "parts")

    def __init__(self, connection: Connection, target: _Target, answer: bytearray, time: Histogram) -> None:
        self.parts: list[Buffer] | None = None
        self._connection = connection
        self._target = target
        self._answer = answer
        self._time = time
        self._received_at_ms = connection.active_at_ms

    def wait(self, node: Node, timeout_ms: int) -> None:
        self._deadlines = node.deadlines
        self._ticket = node.deadlines.add(self, timeout_ms)
        # The requests behind this one are looked at meanwhile: they share the next sync.
        self._connection.begin(self, hold=False)

    def committed(self, token: object) -> None:
        if self.parts is None:
            self._finish(self._answer)

    def failed(self, token: object, code: ErrorCode) -> None:
        if self.parts is None:
            self._finish(self._refusal(code))

    def expired(self) -> None:
        self.failed(None, ErrorCode.REQUEST_TIMED_OUT)

    def abandoned(self) -> None:
        self.parts = []
        self._deadlines.discard(self, self._ticket)

    def _finish(self, answer: Buffer) -> None:
        self.parts = [answer]
        self._deadlines.discard(self, self._ticket)
        self._time.observe((self._connection.now_ms() - self._received_at_ms) / 1000)
        self._connection.answered(self)

    def _refusal(self, code: ErrorCode) -> bytes:
        target, answer = self._target, self._answer
        (correlation_id,) = _CORRELATION_ID.unpack_from(answer, _CORRELATION_ID_POSITION)
        log_start_offset = _NONE
        if target.version >= LOG_START_OFFSET_SINCE:
            _, _, log_start_offset = _OFFSETS.unpack_from(answer, target.offsets_position)
        return target.refusal(correlation_id, code, log_start_offset=log_start_offset)


def _encoded(
    correlation_id: int, version: int, topic: str, topic_id: UUID, partition: PartitionProduceResponse
) -> bytes:
    response = ProduceResponse(responses=[TopicProduceResponse(topic, topic_id, [partition])])
    return bytes(encode_response(correlation_id, API, version, response))
