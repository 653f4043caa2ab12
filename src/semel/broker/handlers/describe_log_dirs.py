"""DescribeLogDirs (versions 1-5): how much disk each partition takes. A Semel broker has one log directory."""

from __future__ import annotations

from semel.broker.node import Node
from semel.broker.partitions import Partition
from semel.broker.request import Request
from semel.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def describe_log_dirs(node: Node, request: Request, message: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    if message.topics is None:
        partitions = list(node.partitions)
    else:
        asked = {(topic.topic, partition): None for topic in message.topics for partition in topic.partitions}
        found = (node.partitions.get(*topic_partition) for topic_partition in asked)
        partitions = [partition for partition in found if partition is not None]
    result = DescribeLogDirsResult(
        log_dir=node.logs.path, topics=_by_topic(partitions), usable_bytes=node.logs.disk.free_bytes(node.logs.path)
    )
    return DescribeLogDirsResponse(results=[result])


def _by_topic(partitions: list[Partition]) -> list[DescribeLogDirsTopic]:
    topics: dict[str, DescribeLogDirsTopic] = {}
    for partition in partitions:
        name, index = partition.topic_partition
        topic = topics.setdefault(name, DescribeLogDirsTopic(name, []))
        topic.partitions.append(DescribeLogDirsPartition(index, partition.log.size_bytes))
    return list(topics.values())
