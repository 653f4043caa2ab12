"""Produce (versions 3-13): append record batches, and answer once they are safe.

Every partition has its own outcome, and one bad batch leaves the others alone. ``acks`` 1 and -1 mean the same on one
node: acknowledged is what the high watermark has passed. With ``acks`` 0 there is no answer; a client that asked for
none learns of an error by losing its connection, as in Apache Kafka.

A batch of a transaction is appended only if the request names the transactional id (CVE-2018-17196) and its coordinator
agrees: see ``transactional_produce``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from semel.broker.delayed_produce import DelayedProduce
from semel.broker.node import Node
from semel.broker.partitions import Partition
from semel.broker.produce_frame import TOPIC_IDS_SINCE, TRANSACTIONS_V2_SINCE, ZSTD_SINCE
from semel.broker.request import Request
from semel.errors import ErrorCode, KafkaError, StorageError
from semel.log.partition_log import Appended
from semel.types import INTERNAL_TOPICS, TopicPartition
from semel.wire.messages.produce import (
    LeaderIdAndEpoch,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from semel.wire.records import ATTRIBUTES_POSITION, CODEC_MASK, HEADER_SIZE, TRANSACTIONAL_BIT, Codec

if TYPE_CHECKING:
    from semel.broker.transactional_produce import TransactionalProduce

_NO_OFFSET: Final = -1

# The codec and the transactional bit both lie in the low byte of the attributes.
_ATTRIBUTES_LOW_BYTE: Final = ATTRIBUTES_POSITION + 1


def produce(node: Node, request: Request, message: ProduceRequest) -> ProduceResponse | None:
    if message.acks not in (-1, 0, 1):
        return _all_refused(message, ErrorCode.INVALID_REQUIRED_ACKS)
    if message.transactional_id is None:
        return _append_all(node, request, message, None)
    from semel.broker.transactional_produce import TransactionalProduce  # Most brokers never see a transaction.

    transaction = TransactionalProduce(
        node, request, message, append=lambda admitted: _append_all(node, request, message, admitted)
    )

    def writable(topic: TopicProduceData) -> str | None:
        name, error = _name_of(node, topic, request.version)
        return name if error is None else None

    return transaction.serve(writable)


def _append_all(
    node: Node, request: Request, message: ProduceRequest, transaction: TransactionalProduce | None
) -> ProduceResponse | None:
    acks = message.acks
    response = ProduceResponse()
    delayed: DelayedProduce | None = None
    failed = False
    for topic in message.topic_data:
        name, topic_error = _name_of(node, topic, request.version)
        answers: list[PartitionProduceResponse] = []
        response.responses.append(TopicProduceResponse(topic.name, topic.topic_id, answers))
        for data in topic.partition_data:
            partition: Partition | None = None
            try:
                if topic_error is not None:
                    raise topic_error
                partition = node.led_partition(name, data.index)
                appended = _append(node, partition, data, request.version, transaction)
            except KafkaError as error:
                answers.append(_refused(data.index, error.code, error.message, partition, node))
                failed = True
                continue
            except StorageError as error:
                answers.append(_refused(data.index, ErrorCode.KAFKA_STORAGE_ERROR, str(error), partition, node))
                failed = True
                continue
            answer = _appended(node, data, appended)
            answers.append(answer)
            if acks and partition.log.high_watermark <= appended.last_offset:
                if delayed is None:
                    delayed = DelayedProduce(request, response, node.deadlines, message.timeout_ms)
                delayed.wait_for(partition, appended.last_offset, answer)
    if acks == 0:
        if failed:
            request.refuse()
        else:
            request.answer_nothing()
        return None
    return response if delayed is None else None


def _name_of(node: Node, topic: TopicProduceData, version: int) -> tuple[str, KafkaError | None]:
    name = topic.name
    if version >= TOPIC_IDS_SINCE:
        known = node.image.topics_by_id.get(topic.topic_id)
        if known is None:
            return "", KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {topic.topic_id}")
        name = known.name
    if name in INTERNAL_TOPICS:
        return name, KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"{name} is an internal topic; only its coordinator writes to it"
        )
    return name, None


def _append(
    node: Node,
    partition: Partition,
    data: PartitionProduceData,
    version: int,
    transaction: TransactionalProduce | None,
) -> Appended:
    records = data.records
    if not records:
        raise KafkaError(ErrorCode.INVALID_RECORD, "no record batch; a produce request has one for every partition")
    require_zero_first = False
    if len(records) >= HEADER_SIZE:
        attributes = records[_ATTRIBUTES_LOW_BYTE]
        if version < ZSTD_SINCE and attributes & CODEC_MASK == Codec.ZSTD:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"zstd in a produce request of version {version}; it needs version {ZSTD_SINCE}",
            )
        if attributes & TRANSACTIONAL_BIT:
            require_zero_first = version >= TRANSACTIONS_V2_SINCE
            _check_transaction(transaction, partition.topic_partition)
    assert isinstance(records, memoryview)
    return partition.append(records, now_ms=node.clock.now_ms(), require_zero_first=require_zero_first)


def _check_transaction(transaction: TransactionalProduce | None, topic_partition: TopicPartition) -> None:
    if transaction is None:
        raise KafkaError(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            f"a transactional batch for {topic_partition} in a request without a transactional id",
        )
    transaction.check(topic_partition)


def _appended(node: Node, data: PartitionProduceData, appended: Appended) -> PartitionProduceResponse:
    metrics = node.metrics
    if appended.duplicate:
        metrics.duplicate_batches.value += 1
    else:
        metrics.appended_batches.value += 1
        metrics.appended_records.value += appended.last_offset - appended.base_offset + 1
        metrics.appended_bytes.value += len(data.records or b"")
    time_ms = appended.log_append_time_ms
    return PartitionProduceResponse(
        data.index, ErrorCode.NONE, appended.base_offset, -1 if time_ms is None else time_ms, appended.log_start_offset
    )


def _refused(
    index: int, code: ErrorCode, text: str, partition: Partition | None, node: Node
) -> PartitionProduceResponse:
    answer = PartitionProduceResponse(index=index, error_code=code, base_offset=_NO_OFFSET, error_message=text)
    if partition is not None and code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        answer.current_leader = LeaderIdAndEpoch(node.config.node_id, partition.leader_epoch)
    return answer


def _all_refused(message: ProduceRequest, code: ErrorCode) -> ProduceResponse:
    response = ProduceResponse()
    text = f"acks is {message.acks}; it must be -1, 0 or 1"
    for topic in message.topic_data:
        answers = [
            PartitionProduceResponse(index=data.index, error_code=code, base_offset=_NO_OFFSET, error_message=text)
            for data in topic.partition_data
        ]
        response.responses.append(TopicProduceResponse(topic.name, topic.topic_id, answers))
    return response
