"""DeleteRecords (versions 0-2): raises the log start offset, up to the high watermark if the request has no offset.

The law: the new log start offset is on disk, here and on all in-sync replicas, before the response is sent, so that
records that were reported as deleted do not appear again. If a follower takes longer than the timeout of the request,
the error is REQUEST_TIMED_OUT. Segments with only deleted records are removed at once, because the client may need the
disk space.
"""

from __future__ import annotations

import asyncio
import logging

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.errors import ErrorCode, KafkaError, StorageError
from semel.log.retention import below_start_steps
from semel.types import INTERNAL_TOPICS
from semel.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

logger = logging.getLogger("semel.broker")


async def delete_records(node: Node, request: Request, message: DeleteRecordsRequest) -> DeleteRecordsResponse:
    topics = [
        DeleteRecordsTopicResult(topic.name, [_delete(node, topic.name, asked) for asked in topic.partitions])
        for topic in message.topics
    ]
    deleted = [result for topic in topics for result in topic.partitions if not result.error_code]
    if deleted:
        try:
            await node.logs.persist_log_starts()
        except OSError:
            for result in deleted:
                result.error_code, result.low_watermark = ErrorCode.KAFKA_STORAGE_ERROR, None
    await _reach_followers(node, topics, message.timeout_ms)
    for topic in topics:
        for result in topic.partitions:
            if not result.error_code:
                await _remove_segments(node, topic.name, result.partition_index)
    return DeleteRecordsResponse(topics=topics)


async def _reach_followers(node: Node, topics: list[DeleteRecordsTopicResult], timeout_ms: int) -> None:
    waiting: list[_Deleting] = []
    for topic in topics:
        for result in topic.partitions:
            if result.error_code:
                continue
            try:
                partition = node.led_partition(topic.name, result.partition_index)
            except KafkaError as error:  # The term has ended since: the next leader may not know the new log start.
                result.error_code, result.low_watermark = error.code, None
                continue
            if partition.replicas is not None:
                waiting.append(deleting := _Deleting(result))
                partition.when_deleted(result.low_watermark or 0, deleting, None)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            for deleting in waiting:
                await deleting.ended
    except TimeoutError:
        for deleting in waiting:
            deleting.failed(None, ErrorCode.REQUEST_TIMED_OUT)


class _Deleting:
    """Waits until the followers of one partition have the new log start offset."""

    def __init__(self, result: DeleteRecordsPartitionResult) -> None:
        self._result = result
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def committed(self, token: object) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def failed(self, token: object, code: ErrorCode) -> None:
        if not self.ended.done():
            self._result.error_code, self._result.low_watermark = code, None
            self.ended.set_result(None)


async def _remove_segments(node: Node, topic: str, index: int) -> None:
    partition = node.partitions.get(topic, index)
    if partition is None:
        return
    try:
        await node.turns.run(below_start_steps(partition.log), elements=1)
    except OSError as error:
        logger.error("segments of %s are removed later: %s", partition.topic_partition, error)


def _delete(node: Node, topic: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    try:
        if topic in INTERNAL_TOPICS:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is an internal topic")
        partition = node.led_partition(topic, asked.partition_index)
        log = partition.log
        if not log.config.delete:
            raise KafkaError(ErrorCode.POLICY_VIOLATION, f"the cleanup.policy of {topic} does not include delete")
        offset = log.high_watermark if asked.offset is None else asked.offset
        low_watermark = log.delete_records_before(offset)
    except KafkaError as error:
        return DeleteRecordsPartitionResult(asked.partition_index, error_code=error.code)
    except StorageError:
        return DeleteRecordsPartitionResult(asked.partition_index, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    return DeleteRecordsPartitionResult(asked.partition_index, low_watermark)
