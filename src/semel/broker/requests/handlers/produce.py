"""Produce (versions 3-13): the general parser, from the decoded message to the batches of a ``ProduceOperation``.

Every partition has its own outcome, and one bad batch leaves the others alone. The common request (one topic, one
partition) does not come here: ``produce/in_place_parser``.
"""

from __future__ import annotations

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.produce.produce_batch import ProduceBatch, writable_partition
from semel.broker.produce.produce_operation import ProduceOperation
from semel.broker.produce.produce_response import produce_response
from semel.errors import ErrorCode, KafkaError
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData


def produce(node: Node, request: Request, message: ProduceRequest) -> None:
    operation = ProduceOperation(
        node,
        request,
        message.transactional_id,
        message.acks,
        message.timeout_ms,
        [_batch(node, request.version, topic, data) for topic in message.topic_data for data in topic.partition_data],
        lambda request, batches: request.answer(produce_response(message, batches)),
    )
    if message.acks in (-1, 0, 1):
        operation.serve()
    else:
        text = f"acks is {message.acks}; it must be -1, 0 or 1"
        operation.refuse(KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, text))


def _batch(node: Node, version: int, topic: TopicProduceData, data: PartitionProduceData) -> ProduceBatch:
    records = data.records
    assert records is None or isinstance(records, memoryview)
    try:
        partition = writable_partition(node, version, topic.name, topic.topic_id, data.index)
    except KafkaError as error:
        return ProduceBatch(data.index, records, None, error)
    return ProduceBatch(data.index, records, partition)
