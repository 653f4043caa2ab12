"""DescribeProducers (version 0): the producers of a partition, and the start of their transactions (KIP-664).

Followers answer too: a tool that searches one broker for hanging transactions asks it about all its replicas.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any, Final

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.errors import ErrorCode, KafkaError
from semel.log.partition_log import PartitionLog
from semel.types import TopicPartition
from semel.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)

SLICE_PRODUCERS: Final = 1000
"""How many producers and partitions are described in one slice."""
ANSWER_PRODUCERS_MAX: Final = 200_000
"""The maximum number of producers in a response, because a request may name a partition a thousand times.

Partitions after that are refused.
"""


def describe_producers(
    node: Node, request: Request, message: DescribeProducersRequest
) -> DescribeProducersResponse | Coroutine[Any, Any, DescribeProducersResponse]:
    answer = _answer(node, request, message)
    weight = sum(_weight(node, topic.name, index) for topic in message.topics for index in topic.partition_indexes)
    if weight <= SLICE_PRODUCERS:
        return node.turns.at_once(answer, elements=weight)
    return node.turns.run(answer, elements=SLICE_PRODUCERS)


def _weight(node: Node, topic: str, index: int) -> int:
    try:
        return 1 + _replica(node, topic, index).producers.producer_count
    except KafkaError:
        return 1


def _replica(node: Node, topic: str, index: int) -> PartitionLog:
    """Return the log of a partition that this broker leads or follows. Raises KafkaError if there is none here."""
    topic_partition = TopicPartition(topic, index)
    if node.replicas is not None and node.replicas.follows(topic_partition):
        log = node.logs.get(topic_partition)
        if log is not None:
            return log
    return node.led_partition(topic, index).log


def _answer(
    node: Node, request: Request, message: DescribeProducersRequest
) -> Generator[None, None, DescribeProducersResponse]:
    """Make the response, with a pause after every slice."""
    response = DescribeProducersResponse()
    room = SLICE_PRODUCERS
    for topic in message.topics:
        described = TopicResponse(topic.name, [])
        response.topics.append(described)
        for index in topic.partition_indexes:
            found = PartitionResponse(index)
            described.partitions.append(found)
            for producer in _producers(node, request, topic.name, found):
                found.active_producers.append(producer)
                request.response_elements += 1
                room -= 1
                if room <= 0:
                    room = SLICE_PRODUCERS
                    yield
            room -= 1
            if room <= 0:
                room = SLICE_PRODUCERS
                yield
    return response


def _producers(
    node: Node, request: Request, topic: str, found: PartitionResponse
) -> Generator[ProducerState, None, None]:
    """Yield the producers of a partition. If it is refused, yields none and puts the error into ``found``."""
    try:
        if request.response_elements >= ANSWER_PRODUCERS_MAX:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"{request.response_elements} producers are in the answer; ask for "
                f"{topic}-{found.partition_index} alone",
            )
        log = _replica(node, topic, found.partition_index)
    except KafkaError as error:
        found.error_code, found.error_message = error.code, error.message
        return
    for producer in log.producers.described():
        yield ProducerState(
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            last_sequence=producer.last_sequence,
            last_timestamp=producer.last_timestamp,
            coordinator_epoch=producer.coordinator_epoch,
            current_txn_start_offset=producer.current_transaction_start_offset,
        )
