"""The quick way for the first batch of a transaction on a partition (transactions V2): the coordinator is asked."""

from __future__ import annotations

import logging

from semel.broker.connection import Connection
from semel.broker.produce_target import ProduceTarget
from semel.broker.quick_produce import REFUSED, QuickProduce, WaitingProduce
from semel.broker.shards import Waiting
from semel.broker.transaction_admission import Refusals, admit, refusal
from semel.broker.transaction_gate import ProducerIdentity
from semel.errors import KafkaError
from semel.types import Buffer

logger = logging.getLogger("semel.broker")


class AskingProduce(WaitingProduce):
    """A request that begins a transaction on its partition, from the question to the coordinator on.

    The requests behind it are held back until its records are appended, so that the producer's batches stay in order.
    """

    __slots__ = ("_asked", "_correlation_id", "_named", "_quick", "_records", "_timeout_ms", "_transactional_id")

    def __init__(
        self,
        quick: QuickProduce,
        connection: Connection,
        target: ProduceTarget,
        correlation_id: int,
        timeout_ms: int,
        named: bytes,
    ) -> None:
        super().__init__(quick.node, connection, target, b"", quick.time)
        self._quick = quick
        self._correlation_id = correlation_id
        self._timeout_ms = timeout_ms
        self._named = named
        self._asked: Waiting | None = None

    def ask(self, transactional_id: str, producer: ProducerIdentity, records: memoryview) -> None:
        self._transactional_id = transactional_id
        self._keep(records)
        self._connection.begin(self, hold=True)
        partitions = (self._target.partition,)
        self._asked = admit(self._quick.node, transactional_id, producer, partitions, adds=True, respond=self._admitted)

    def _keep(self, records: memoryview) -> None:
        """A copy: the buffer that they arrived in is needed for others before the coordinator has answered."""
        self._records = memoryview(bytearray(records))

    def abandoned(self) -> None:
        super().abandoned()
        if self._asked is not None:
            self._asked.abandoned()

    def _admitted(self, refusals: Refusals) -> None:
        """Append, also for a client that is gone: it sent the records, and may ask the coordinator about them."""
        try:
            answer, last_offset = self._append(refusals)
        except Exception:
            logger.exception("Produce from %s failed while its coordinator was asked", self._connection.host)
            self._connection.close()
            return
        if self.parts is not None:
            return
        if self._target.partition.log.high_watermark > last_offset:
            self._finish(answer)
        else:
            self._answer = answer
            self._connection.release(self)
            self.wait(last_offset, self._timeout_ms)

    def _append(self, refusals: Refusals) -> tuple[Buffer, int]:
        target = self._target
        error: KafkaError | None = None
        if refusals:
            error = refusal(target.partition.topic_partition, refusals, self._transactional_id, target.version)
        elif not self._quick.is_still(target, self._named):
            error = target.gone()
        if error is not None:
            return target.refused(self._correlation_id, error), REFUSED
        return self._quick.append(target, self._records, self._correlation_id, is_transactional=True)
