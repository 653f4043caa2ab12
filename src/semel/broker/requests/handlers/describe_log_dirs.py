"""DescribeLogDirs (versions 1-5): the size of each replica on this broker's disk, also of partitions that others lead.

A Semel broker has one log directory.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any, Final

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.log.partition_log import PartitionLog
from semel.types import TopicPartition
from semel.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

SLICE_PARTITIONS: Final = 1000
"""How many partitions are described in one slice."""


def describe_log_dirs(
    node: Node, request: Request, message: DescribeLogDirsRequest
) -> DescribeLogDirsResponse | Coroutine[Any, Any, DescribeLogDirsResponse]:
    if message.topics is None:
        logs = list(node.logs.logs.values())
    else:
        asked = {TopicPartition(topic.topic, index): None for topic in message.topics for index in topic.partitions}
        found = map(node.logs.get, asked)
        logs = [log for log in found if log is not None]
    answer = _answer(node, logs)
    if len(logs) <= SLICE_PARTITIONS:
        return node.turns.at_once(answer, elements=len(logs))
    return node.turns.run(answer, elements=SLICE_PARTITIONS)


def _answer(node: Node, logs: list[PartitionLog]) -> Generator[None, None, DescribeLogDirsResponse]:
    """Make the response, with a pause after every slice."""
    topics: dict[str, DescribeLogDirsTopic] = {}
    for number, log in enumerate(logs):
        if number and number % SLICE_PARTITIONS == 0:
            yield
        name, index = log.topic_partition
        topic = topics.setdefault(name, DescribeLogDirsTopic(name, []))
        topic.partitions.append(DescribeLogDirsPartition(index, log.size_bytes))
    result = DescribeLogDirsResult(
        log_dir=node.logs.path,
        topics=list(topics.values()),
        usable_bytes=node.logs.disk.free_bytes(node.logs.path),
    )
    return DescribeLogDirsResponse(results=[result])
