"""DescribeLogDirs (versions 1-5): the size of each partition on disk. A Semel broker has one log directory."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from typing import Any, Final

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.partitions.partitions import Partition
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
        partitions = list(node.partitions)
    else:
        asked = {(topic.topic, partition): None for topic in message.topics for partition in topic.partitions}
        found = (node.partitions.get(*topic_partition) for topic_partition in asked)
        partitions = [partition for partition in found if partition is not None]
    answer = _answer(node, partitions)
    if len(partitions) <= SLICE_PARTITIONS:
        return node.turns.at_once(answer, elements=len(partitions))
    return node.turns.run(answer, elements=SLICE_PARTITIONS)


def _answer(node: Node, partitions: list[Partition]) -> Generator[None, None, DescribeLogDirsResponse]:
    """Make the response, with a pause after every slice."""
    topics: dict[str, DescribeLogDirsTopic] = {}
    for number, partition in enumerate(partitions):
        if number and number % SLICE_PARTITIONS == 0:
            yield
        name, index = partition.topic_partition
        topic = topics.setdefault(name, DescribeLogDirsTopic(name, []))
        topic.partitions.append(DescribeLogDirsPartition(index, partition.log.size_bytes))
    result = DescribeLogDirsResult(
        log_dir=node.logs.path,
        topics=list(topics.values()),
        usable_bytes=node.logs.disk.free_bytes(node.logs.path),
    )
    return DescribeLogDirsResponse(results=[result])
