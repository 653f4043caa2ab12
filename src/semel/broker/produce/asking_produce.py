"""The quick way for a request whose records cannot be appended at once.

Their check takes longer than the event loop may be kept, or they are the first of a transaction on their partition
(transactions V2) and the coordinator is asked, or both, in this order: what the coordinator says is good only at the
moment it is said.
"""

from __future__ import annotations

import logging

from semel.broker.coordinators.shard_runtime import DelayedRequest
from semel.broker.network.connection import Connection
from semel.broker.produce.frame import TRANSACTIONS_V2_SINCE
from semel.broker.produce.quick_produce import REFUSED, QuickProduce, WaitingProduce
from semel.broker.produce.target import ProduceTarget
from semel.broker.produce.transaction_admission import Refusals, admit, refusal
from semel.errors import KafkaError
from semel.log.batch_check import BatchCheck
from semel.types import Buffer, ProducerIdentity

logger = logging.getLogger("semel.broker")


class AskingProduce(WaitingProduce):
    """The request, from then on until it is answered.

    The requests behind it are held back until its records are appended, so that the producer's batches stay in order.
    """

    __slots__ = (
        "_acks",
        "_asked",
        "_check",
        "_correlation_id",
        "_named",
        "_producer",
        "_quick",
        "_records",
        "_timeout_ms",
        "_transactional_id",
    )

    def __init__(
        self,
        quick: QuickProduce,
        connection: Connection,
        target: ProduceTarget,
        correlation_id: int,
        timeout_ms: int,
        named: bytes,
        acks: int,
    ) -> None:
        super().__init__(quick.node, connection, target, b"", quick.time)
        self._quick = quick
        self._correlation_id = correlation_id
        self._timeout_ms = timeout_ms
        self._named = named
        self._acks = acks
        self._asked: DelayedRequest | None = None

    def begin(
        self,
        transactional_id: str | None,
        producer: ProducerIdentity | None,
        records: memoryview,
        check: BatchCheck | None,
    ) -> None:
        self._transactional_id = transactional_id
        self._producer = producer
        self._check = check
        self._connection.begin(self, hold=True)
        if check is None or not check.is_long:
            self._keep(records)
            self._ask()
            return
        checks = self._quick.node.record_checks
        try:
            checks.check_room(len(records))
        except KafkaError as error:
            self._respond(self._target.refused(self._correlation_id, error), REFUSED)
            return
        self._records = check.keep()
        checks.run((check,), len(records), self._checked)

    def _keep(self, records: memoryview) -> None:
        """A copy: the buffer that they arrived in is needed for others before the coordinator has answered."""
        self._records = memoryview(bytearray(records))

    def abandoned(self) -> None:
        super().abandoned()
        if self._asked is not None:
            self._asked.abandoned()

    def _checked(self, error: BaseException | None) -> None:
        try:
            if error is not None:
                raise error
            self._ask()
        except Exception:
            self._failed("its records were checked")

    def _ask(self) -> None:
        """The coordinator, unless the partition's gate is open for this producer, or there is no transaction."""
        if self._producer is None:
            self._admitted({})
            return
        assert self._transactional_id is not None
        self._asked = admit(
            self._quick.node,
            self._transactional_id,
            self._producer,
            (self._target.partition,),
            adds=self._target.version >= TRANSACTIONS_V2_SINCE,
            respond=self._admitted,
        )

    def _admitted(self, refusals: Refusals) -> None:
        """Append, also for a client that is gone: it sent the records, and may ask the coordinator about them."""
        try:
            self._respond(*self._append(refusals))
        except Exception:
            self._failed("its coordinator was asked")

    def _respond(self, answer: Buffer, last_offset: int) -> None:
        if self.parts is not None:
            return  # The client is gone.
        if self._acks == 0:
            if last_offset == REFUSED:
                self._connection.close()
            else:
                self.parts = []
                self._connection.answered(self)
        elif self._target.partition.log.high_watermark > last_offset:
            self._finish(answer)
        else:
            self._answer = answer
            self._connection.release(self)
            self.wait(last_offset, self._timeout_ms)

    def _append(self, refusals: Refusals) -> tuple[Buffer, int]:
        target = self._target
        error: KafkaError | None = None
        if refusals:
            assert self._transactional_id is not None
            error = refusal(target.partition.topic_partition, refusals, self._transactional_id, target.version)
        elif not self._quick.is_still(target, self._named):
            error = target.gone()
        if error is not None:
            return target.refused(self._correlation_id, error), REFUSED
        return self._quick.append(
            target,
            self._records,
            self._correlation_id,
            is_transactional=self._producer is not None,
            check=self._check,
        )

    def _failed(self, when: str) -> None:
        logger.exception("Produce from %s failed while %s", self._connection.host, when)
        self._connection.close()
