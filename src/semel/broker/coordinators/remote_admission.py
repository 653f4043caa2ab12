"""Admission to a transaction whose coordinator is another broker: AddPartitionsToTxn, from version 4 on.

All questions of one turn of the event loop to one broker are sent as one request, and so are those that are asked while
a request is under way. A request has one question per transactional id; a second question about the same id waits for
the next request. The law: each waiter is answered exactly once. If the broker does not answer, the waiters get
NETWORK_EXCEPTION, and their producers send again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final, NamedTuple

from semel.broker.cluster.peers import Peers, Purpose
from semel.broker.cluster.single_in_flight import SingleInFlight
from semel.broker.waiting.delayed_operation import HasClient
from semel.coordinator.decision import Waiter
from semel.coordinator.transaction.results import AddPartitionsResult
from semel.errors import ErrorCode, named
from semel.types import ProducerIdentity, TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

TRANSACTIONS_PER_REQUEST: Final = 500
# A request with more than 100,000 elements would be refused. A single question may have more partitions than this.
PARTITIONS_PER_REQUEST: Final = 10_000


class RemoteAdmission:
    def __init__(self, peers: Peers, loop: asyncio.AbstractEventLoop) -> None:
        self._peers = peers
        self._loop = loop
        self._coordinators: dict[int, _Coordinator] = {}

    def ask(
        self,
        node_id: int,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Sequence[TopicPartition],
        *,
        adds: bool,
        waiter: Waiter[AddPartitionsResult],
    ) -> HasClient:
        """Ask the coordinator to add the partitions to the transaction, or to verify that they are in it.

        Returns the operation that the connection abandons if the client leaves.
        """
        coordinator = self._coordinators.get(node_id)
        if coordinator is None:
            coordinator = self._coordinators[node_id] = _Coordinator(node_id, self._peers, self._loop)
        question = _Question(transactional_id, producer, tuple(partitions), adds, waiter)
        coordinator.ask(question)
        return question


class _Question(NamedTuple):
    transactional_id: str
    producer: ProducerIdentity
    partitions: tuple[TopicPartition, ...]
    adds: bool
    waiter: Waiter[AddPartitionsResult]

    def abandoned(self) -> None:
        """Called when the client is gone. The waiter is answered all the same: the gate has counted the question."""


class _Coordinator:
    def __init__(self, node_id: int, peers: Peers, loop: asyncio.AbstractEventLoop) -> None:
        self._node_id = node_id
        self._peers = peers
        self._requests = SingleInFlight(loop, self._send)
        self._waiting: list[_Question] = []

    def ask(self, question: _Question) -> None:
        self._waiting.append(question)
        self._requests.begin()

    def _send(self) -> None:
        asked: dict[str, _Question] = {}
        later: list[_Question] = []
        room = PARTITIONS_PER_REQUEST
        for question in self._waiting:
            is_too_large = bool(asked) and len(question.partitions) > room
            if question.transactional_id in asked or len(asked) == TRANSACTIONS_PER_REQUEST or is_too_large:
                later.append(question)
            else:
                asked[question.transactional_id] = question
                room -= len(question.partitions)
        self._waiting = later
        request = AddPartitionsToTxnRequest(transactions=list(map(_transaction, asked.values())))

        def answered(response: AddPartitionsToTxnResponse | None) -> None:
            results = _results(response)
            try:
                for question in asked.values():
                    question.waiter.respond(_result(question, response, results.get(question.transactional_id)))
            finally:
                self._requests.ended(has_more=bool(self._waiting))

        self._peers.ask(self._node_id, Purpose.ADMISSION, ApiKey.ADD_PARTITIONS_TO_TXN, request, answered)


def _transaction(question: _Question) -> AddPartitionsToTxnTransaction:
    topics: dict[str, list[int]] = {}
    for topic, index in question.partitions:
        topics.setdefault(topic, []).append(index)
    return AddPartitionsToTxnTransaction(
        question.transactional_id,
        question.producer.producer_id,
        question.producer.producer_epoch,
        verify_only=not question.adds,
        topics=[AddPartitionsToTxnTopic(name, indexes) for name, indexes in topics.items()],
    )


def _results(response: AddPartitionsToTxnResponse | None) -> dict[str, AddPartitionsToTxnResult]:
    if response is None:
        return {}
    return {result.transactional_id: result for result in response.results_by_transaction}


def _result(
    question: _Question, response: AddPartitionsToTxnResponse | None, result: AddPartitionsToTxnResult | None
) -> AddPartitionsResult:
    if response is None:
        return AddPartitionsResult(ErrorCode.NETWORK_EXCEPTION)
    if response.error_code:
        return AddPartitionsResult(named(response.error_code))
    said = {
        TopicPartition(topic.name, partition.partition_index): named(partition.partition_error_code)
        for topic in ([] if result is None else result.topic_results)
        for partition in topic.results_by_partition
    }
    # A partition that is missing in the response was not admitted.
    errors = {partition: said.get(partition, ErrorCode.NETWORK_EXCEPTION) for partition in question.partitions}
    return AddPartitionsResult(errors={partition: error for partition, error in errors.items() if error})
