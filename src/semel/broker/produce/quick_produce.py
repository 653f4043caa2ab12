"""The Produce request that nearly all Produce requests are, served without taking it apart.

One topic and one partition: then everything that matters lies at positions that can be computed, and the answer differs
from the last one in four numbers. Whatever is different in any way is left alone, and the ordinary way
(``handlers.produce``) serves it. A batch of a transaction is served here if the partition's gate is open for it, or if
its producer leaves it to the broker to have it opened (transactions V2): then the coordinator is asked first.

The law: both ways give the same answers, byte for byte. Nothing is decided here that is not decided there.
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import Final
from uuid import UUID

from semel.broker.metrics.metrics import Histogram
from semel.broker.network.connection import Connection
from semel.broker.node import Node
from semel.broker.partitions.transaction_gate import identity_in
from semel.broker.produce.frame import (
    FLEXIBLE_SINCE,
    TOPIC_IDS_SINCE,
    TRANSACTIONS_V2_SINCE,
    ZSTD_SINCE,
    usual_produce,
)
from semel.broker.produce.target import ProduceTarget
from semel.errors import ErrorCode, KafkaError, StorageError
from semel.log.batch_check import BRIEF_BYTES_MAX, BatchCheck
from semel.types import INTERNAL_TOPICS, ZERO_UUID, Buffer
from semel.wire.records import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    HEADER_SIZE,
    TRANSACTIONAL_BIT,
    Codec,
)

_LENGTH: Final = Struct(">h")
_INDEX: Final = Struct(">i")
_NO_TICKET: Final = -1
REFUSED: Final = -1  # Stands for the offset of records that were not appended: nothing is waited for.


class QuickProduce:
    def __init__(self, node: Node, time: Histogram) -> None:
        self.node = node
        self.time = time
        self._targets: dict[tuple[int, bytes], ProduceTarget] = {}
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
        partition, records = target.partition, frame[start:stop]
        is_transactional = attributes & TRANSACTIONAL_BIT != 0
        producer, is_asked = None, False
        if transactional_id is not None or is_transactional:
            if transactional_id is None or not is_transactional:
                return False
            producer = identity_in(records)
            if producer is None:
                return False
            is_asked = not partition.gate.is_open(transactional_id, producer)
            if is_asked and (version < TRANSACTIONS_V2_SINCE or acks == 0):
                return False
        check = None
        if attributes & CODEC_MASK or stop - start > BRIEF_BYTES_MAX:
            check = partition.log.begin_check(records)
        if is_asked or (check is not None and check.is_long):
            from semel.broker.produce.asking_produce import AskingProduce  # Most brokers never need it.

            asking = AskingProduce(self, connection, target, correlation_id, timeout_ms, named, acks)
            asking.begin(transactional_id, producer, records, check)
            return True
        answer, last_offset = self.append(
            target, records, correlation_id, is_transactional=is_transactional, check=check
        )
        if acks == 0:
            if last_offset == REFUSED:
                connection.close()
        elif partition.log.high_watermark > last_offset:
            self.time.observe((connection.now_ms() - connection.active_at_ms) / 1000)
            connection.reply([answer])
        else:
            waiting = WaitingProduce(self.node, connection, target, answer, self.time)
            # The requests behind this one are looked at meanwhile: they share the next sync.
            connection.begin(waiting, hold=False)
            waiting.wait(last_offset, timeout_ms)
        return True

    def append(
        self,
        target: ProduceTarget,
        records: memoryview,
        correlation_id: int,
        *,
        is_transactional: bool,
        check: BatchCheck | None,
    ) -> tuple[Buffer, int]:
        """The answer, and the offset that must be committed before it may leave: ``REFUSED`` if there is none."""
        node, version = self.node, target.version
        try:
            appended = target.partition.append(
                records,
                now_ms=node.clock.now_ms(),
                require_zero_first=is_transactional and version >= TRANSACTIONS_V2_SINCE,
                check=check,
            )
        except (KafkaError, StorageError) as error:
            return target.refused(correlation_id, error), REFUSED
        base_offset, last_offset, _, _, duplicate = appended
        metrics = node.metrics
        if duplicate:
            metrics.duplicate_batches.value += 1
        else:
            metrics.appended_batches.value += 1
            metrics.appended_records.value += last_offset - base_offset + 1
            metrics.appended_bytes.value += len(records)
        return target.answered(correlation_id, appended), last_offset

    def is_still(self, target: ProduceTarget, named: bytes) -> bool:
        """Whether requests with that name still mean this partition."""
        present = self._target(target.version, named)
        return present is not None and present.partition is target.partition

    def _target(self, version: int, named: bytes) -> ProduceTarget | None:
        partitions = self.node.partitions
        if partitions.generation != self._generation:
            self._targets.clear()
            self._generation = partitions.generation
        target = self._targets.get((version, named))
        if target is None:
            target = self._look_up(version, named)
            if target is not None:
                self._targets[version, named] = target
        return target

    def _look_up(self, version: int, named: bytes) -> ProduceTarget | None:
        (index,) = _INDEX.unpack_from(named, len(named) - _INDEX.size)
        topic_id = ZERO_UUID
        if version >= TOPIC_IDS_SINCE:
            topic_id = UUID(bytes=named[:16])
            known = self.node.image.topics_by_id.get(topic_id)
            name = "" if known is None else known.name
        elif version >= FLEXIBLE_SINCE:
            name = str(named[1 : named[0]], "utf-8")
        else:
            name = str(named[2 : 2 + _LENGTH.unpack_from(named)[0]], "utf-8")
        partition = self.node.partitions.get(name, index)
        if partition is None or name in INTERNAL_TOPICS:
            return None
        return ProduceTarget.of(partition, version, "" if version >= TOPIC_IDS_SINCE else name, topic_id, index)


class WaitingProduce:
    """A request whose records are appended and not yet safe: its place in the line, and who is told."""

    __slots__ = ("_answer", "_connection", "_deadlines", "_received_at_ms", "_target", "_ticket", "_time", "parts")

    def __init__(
        self, node: Node, connection: Connection, target: ProduceTarget, answer: Buffer, time: Histogram
    ) -> None:
        self.parts: list[Buffer] | None = None
        self._connection = connection
        self._target = target
        self._answer = answer
        self._time = time
        self._received_at_ms = connection.active_at_ms
        self._deadlines = node.deadlines
        self._ticket = _NO_TICKET

    def wait(self, last_offset: int, timeout_ms: int) -> None:
        """Until that offset is committed, or the time is up. The place in the line is taken already."""
        self._ticket = self._deadlines.add(self, timeout_ms)
        self._target.partition.when_committed(last_offset, self, None)

    def committed(self, token: object) -> None:
        if self.parts is None:
            self._finish(self._answer)

    def failed(self, token: object, code: ErrorCode) -> None:
        if self.parts is None:
            self._finish(self._target.taken_back(self._answer, code))

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
