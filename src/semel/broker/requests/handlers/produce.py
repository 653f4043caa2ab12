"""Produce (versions 3-13): append record batches, and answer once they are safe.

Every partition has its own outcome, and one bad batch leaves the others alone. ``acks`` 1 and -1 mean the same on one
node: acknowledged is what the high watermark has passed. With ``acks`` 0 there is no answer; a client that asked for
none learns of an error by losing its connection, as in Apache Kafka.

A batch of a transaction is appended only if the request names the transactional id (CVE-2018-17196) and its coordinator
agrees: see ``transactional_produce``. Where the look into the batches takes long, it comes before all that, elsewhere.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, TypeAlias

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.partitions.partitions import Partition
from semel.broker.produce.delayed_produce import DelayedProduce
from semel.broker.produce.frame import TOPIC_IDS_SINCE, TRANSACTIONS_V2_SINCE, ZSTD_SINCE
from semel.broker.produce.target import refused_partition
from semel.errors import ErrorCode, KafkaError, StorageError
from semel.log.batch_check import EFFORT_AT_ONCE_MAX, BatchCheck
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
    from semel.broker.produce.transactional_produce import TransactionalProduce

logger = logging.getLogger("semel.broker")

_Checks: TypeAlias = dict[int, tuple[Partition, BatchCheck]]
"""By the identity of the part of the request that they belong to: the partition that it named, and the look into it."""

# The codec and the transactional bit both lie in the low byte of the attributes.
_ATTRIBUTES_LOW_BYTE: Final = ATTRIBUTES_POSITION + 1


def produce(node: Node, request: Request, message: ProduceRequest) -> ProduceResponse | None:
    if message.acks not in (-1, 0, 1):
        text = f"acks is {message.acks}; it must be -1, 0 or 1"
        return _all_refused(message, KafkaError(ErrorCode.INVALID_REQUIRED_ACKS, text))
    checks = _begin_checks(node, request, message)
    long = [check for _, check in checks.values() if check.is_long]
    if not long:
        return _serve(node, request, message, checks)
    return _serve_later(node, request, message, checks, long)


def _begin_checks(node: Node, request: Request, message: ProduceRequest) -> _Checks:
    """The looks into the batches. Together they get the time that one request may take; the others are not begun."""
    checks: _Checks = {}
    effort_left = EFFORT_AT_ONCE_MAX
    for topic in message.topic_data:
        name, error = _name_of(node, topic, request.version)
        if error is not None:
            continue
        for data in topic.partition_data:
            partition = node.partitions.get(name, data.index)
            if partition is None or data.records is None:
                continue
            assert isinstance(data.records, memoryview)
            check = partition.log.begin_check(data.records, effort_left)
            checks[id(data)] = partition, check
            effort_left -= check.effort + 1
    return checks


def _serve_later(
    node: Node, request: Request, message: ProduceRequest, checks: _Checks, long: list[BatchCheck]
) -> ProduceResponse | None:
    size_bytes = sum(len(data.records or b"") for topic in message.topic_data for data in topic.partition_data)
    try:
        node.record_checks.check_room(size_bytes)
    except KafkaError as error:
        if message.acks == 0:
            request.refuse()
            return None
        return _all_refused(message, error)
    # The buffer that the request arrived in is needed for others meanwhile.
    for topic in message.topic_data:
        for data in topic.partition_data:
            if data.records is not None:
                begun = checks.get(id(data))
                data.records = memoryview(bytearray(data.records)) if begun is None else begun[1].keep()

    def checked(error: BaseException | None) -> None:
        try:
            if error is not None:
                raise error
            response = _serve(node, request, message, checks)
            if response is not None:
                request.answer(response)
        except Exception:
            logger.exception("Produce v%d from %s failed while it was delayed", request.version, request.peer_host)
            request.refuse()

    request.delay(None, hold=True)
    node.record_checks.run(long, size_bytes, checked)
    return None


def _serve(node: Node, request: Request, message: ProduceRequest, checks: _Checks) -> ProduceResponse | None:
    if message.transactional_id is None:
        return _append_all(node, request, message, checks, None)
    from semel.broker.produce.transactional_produce import TransactionalProduce  # Most brokers never see a transaction.

    transaction = TransactionalProduce(
        node, request, message, append=lambda admitted: _append_all(node, request, message, checks, admitted)
    )

    def writable(topic: TopicProduceData) -> str | None:
        name, error = _name_of(node, topic, request.version)
        return name if error is None else None

    return transaction.serve(writable)


def _append_all(
    node: Node,
    request: Request,
    message: ProduceRequest,
    checks: _Checks,
    transaction: TransactionalProduce | None,
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
                appended = _append(node, partition, data, request.version, transaction, checks)
            except (KafkaError, StorageError) as error:
                answers.append(_refused(data.index, error, partition, node))
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
    checks: _Checks,
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
    # The topic may have been deleted since the request came, and made anew under the same name. Its records were meant
    # for the old one, and what was found out about them went by the old one's settings.
    named, check = checks.get(id(data), (None, None))
    if named is not partition:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"{partition.topic_partition} did not exist when the request came; nothing was appended",
        )
    assert isinstance(records, memoryview)
    return partition.append(records, now_ms=node.clock.now_ms(), require_zero_first=require_zero_first, check=check)


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
    index: int, error: KafkaError | StorageError, partition: Partition | None, node: Node
) -> PartitionProduceResponse:
    answer = refused_partition(index, error)
    if partition is not None and answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
        answer.current_leader = LeaderIdAndEpoch(node.config.node_id, partition.leader_epoch)
    return answer


def _all_refused(message: ProduceRequest, error: KafkaError) -> ProduceResponse:
    response = ProduceResponse()
    for topic in message.topic_data:
        answers = [refused_partition(data.index, error) for data in topic.partition_data]
        response.responses.append(TopicProduceResponse(topic.name, topic.topic_id, answers))
    return response
