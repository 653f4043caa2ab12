"""The transactional part of a Produce request: before anything is appended, the coordinator is asked.

A request names its transactional id, and all its transactional batches come from one producer id and epoch
(INVALID_PRODUCER_ID_MAPPING otherwise). While the coordinator is asked, the requests behind this one are held back, so
that the producer's batches stay in order; and what the request holds is copied, because the buffer it arrived in is
needed for others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.partitions.partitions import Partition
from semel.broker.partitions.transaction_gate import identity_in
from semel.broker.produce.frame import TRANSACTIONS_V2_SINCE
from semel.broker.produce.transaction_admission import Refusals, admit, refusal
from semel.errors import ErrorCode, KafkaError
from semel.types import ProducerIdentity, TopicPartition
from semel.wire.messages.produce import ProduceRequest, ProduceResponse, TopicProduceData

logger = logging.getLogger("semel.broker")


class TransactionalProduce:
    """``append`` is what serves the request once it is known which partitions may be written to (``check``)."""

    __slots__ = ("_append", "_is_held", "_message", "_node", "_refusals", "_request", "_targets")

    def __init__(
        self,
        node: Node,
        request: Request,
        message: ProduceRequest,
        *,
        append: Callable[[TransactionalProduce], ProduceResponse | None],
    ) -> None:
        self._node = node
        self._request = request
        self._message = message
        self._append = append
        self._targets: dict[TopicPartition, Partition] = {}
        self._refusals: Refusals | None = None
        self._is_held = False

    def serve(self, name_of: Callable[[TopicProduceData], str | None]) -> ProduceResponse | None:
        """Serve the request now, and return the response, or later. ``name_of`` names topics that may be written to."""
        identities: dict[ProducerIdentity, None] = {}
        for topic in self._message.topic_data:
            name = name_of(topic)
            for data in topic.partition_data:
                identity = None if data.records is None else identity_in(data.records)
                partition = None if name is None else self._node.partitions.get(name, data.index)
                if identity is not None and partition is not None:
                    identities[identity] = None
                    self._targets[partition.topic_partition] = partition
        if len(identities) != 1:
            self._refusals = dict.fromkeys(self._targets, ErrorCode.INVALID_PRODUCER_ID_MAPPING)
            return self._append(self)
        (producer,) = identities
        assert self._message.transactional_id is not None
        waiting = admit(
            self._node,
            self._message.transactional_id,
            producer,
            list(self._targets.values()),
            adds=self._request.version >= TRANSACTIONS_V2_SINCE,
            respond=self._admitted,
        )
        if self._refusals is not None:
            return self._append(self)
        self._is_held = True
        self._keep_records()
        self._request.delay(waiting, hold=True)
        return None

    def check(self, topic_partition: TopicPartition) -> None:
        """Raise KafkaError unless a transactional batch may be appended there."""
        assert self._refusals is not None
        if topic_partition not in self._targets:
            raise KafkaError(ErrorCode.INVALID_RECORD, f"the batch for {topic_partition} names no producer")
        assert self._message.transactional_id is not None
        error = refusal(topic_partition, self._refusals, self._message.transactional_id, self._request.version)
        if error is not None:
            raise error

    def _admitted(self, refusals: Refusals) -> None:
        self._refusals = refusals
        if not self._is_held:
            return
        request = self._request
        try:
            response = self._append(self)
            if response is not None:
                request.answer(response)
        except Exception:
            logger.exception("Produce v%d from %s failed while it was delayed", request.version, request.peer_host)
            request.refuse()

    def _keep_records(self) -> None:
        for topic in self._message.topic_data:
            for data in topic.partition_data:
                if data.records is not None:
                    data.records = memoryview(bytearray(data.records))
