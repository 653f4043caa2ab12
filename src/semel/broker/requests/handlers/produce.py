"""Produce (versions 3-13): the general parser, from the decoded message to the batches of a ``ProduceOperation``.

Every partition has its own result, and an invalid batch does not affect the others. The common request (one topic, one
partition) is parsed in ``produce/in_place_parser`` instead.
"""

from __future__ import annotations

from collections.abc import Iterator

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.produce.produce_batch import TOPIC_IDS_SINCE, ProduceBatch, writable_partition
from semel.broker.produce.produce_operation import ProduceOperation
from semel.broker.produce.produce_response import produce_response
from semel.errors import ErrorCode, KafkaError
from semel.security.rights import WRITE_TOPIC, WRITE_TRANSACTIONAL_ID, Rights
from semel.wire.messages.produce import ProduceRequest, TopicProduceData


def produce(node: Node, request: Request, message: ProduceRequest) -> None:
    rights = node.rights(request)
    batches = [batch for topic in message.topic_data for batch in _batches(node, request.version, topic, rights)]
    operation = ProduceOperation(
        node,
        request,
        message.transactional_id,
        message.acks,
        message.timeout_ms,
        batches,
        lambda request, batches: request.answer(produce_response(message, batches)),
    )
    if rights is not None and any(batch.is_transactional for batch in batches) and not _may_write(message, rights):
        text = f"the client may not write in transactions of {message.transactional_id!r}"
        operation.refuse(KafkaError(WRITE_TRANSACTIONAL_ID.refusal, text))
    elif message.acks in (-1, 0, 1):
        operation.serve()
    else:
        text = f"acks is {message.acks}; it must be -1, 0 or 1"
        operation.refuse(KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, text))


def _may_write(message: ProduceRequest, rights: Rights) -> bool:
    """Whether the client may write transactional batches. It may not without a transactional id, since then no right
    could be checked."""
    transactional_id = message.transactional_id
    return transactional_id is not None and rights.demand(WRITE_TRANSACTIONAL_ID, transactional_id)


def _batches(node: Node, version: int, topic: TopicProduceData, rights: Rights | None) -> Iterator[ProduceBatch]:
    error = None if rights is None else _refusal(node, version, topic, rights)
    for data in topic.partition_data:
        records = data.records
        assert records is None or isinstance(records, memoryview)
        yield (
            _batch(node, version, topic, data.index, records)
            if error is None
            else ProduceBatch(data.index, records, None, error)
        )


def _refusal(node: Node, version: int, topic: TopicProduceData, rights: Rights) -> KafkaError | None:
    """Return the refusal of a topic that the client may not write to. An unknown topic id gets another error later."""
    name = topic.name
    if version >= TOPIC_IDS_SINCE:
        known = node.image.topics_by_id.get(topic.topic_id)
        if known is None:
            return None
        name = known.name
    if rights.demand(WRITE_TOPIC, name):
        return None
    return KafkaError(WRITE_TOPIC.refusal, "the client may not write to the topic")


def _batch(node: Node, version: int, topic: TopicProduceData, index: int, records: memoryview | None) -> ProduceBatch:
    try:
        partition = writable_partition(node, version, topic.name, topic.topic_id, index)
    except KafkaError as error:
        return ProduceBatch(index, records, None, error)
    return ProduceBatch(index, records, partition)
