"""OffsetForLeaderEpoch (versions 2-4): the end offset of a leader epoch, to validate positions (KIP-320)."""

from __future__ import annotations

from semel.broker.fetch.reading import check_leader_epoch
from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.errors import KafkaError
from semel.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


def offset_for_leader_epoch(
    node: Node, request: Request, message: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(topic.topic, [_ended(node, topic.topic, asked) for asked in topic.partitions])
            for topic in message.topics
        ]
    )


def _ended(node: Node, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = node.led_partition(topic, asked.partition)
        check_leader_epoch(partition, asked.current_leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(error_code=error.code, partition=asked.partition)
    end = partition.log.end_offset_for_epoch(asked.leader_epoch)
    if end is None:
        return EpochEndOffset(partition=asked.partition)
    return EpochEndOffset(partition=asked.partition, leader_epoch=end.leader_epoch, end_offset=end.end_offset)
