"""What must hold of replicas once there has been peace for a while: all led, all in sync, all logs the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from semel.log.partition_log import PartitionLog
from semel.metadata import paths
from semel.metadata.image import Topic
from semel.types import INTERNAL_TOPICS, TopicPartition
from semel.wire.control import parse_marker
from semel.wire.records import iterate_headers, iterate_records
from tests.simulation.replica_faults import DOOMED
from tests.simulation.served_cluster import ServedCluster

PEACE_S_MAX = 60.0


async def until_replicas_agree(cluster: ServedCluster, *, peace_since_s: float) -> None:
    """Within a minute after the last fault. What is appended afterwards is nothing but ends of transactions."""
    loop = asyncio.get_running_loop()
    deadline = peace_since_s + PEACE_S_MAX
    while wrong := _wrong(cluster):
        assert loop.time() < deadline, f"after {loop.time() - peace_since_s:.0f} s of peace: {'; '.join(wrong[:5])}"
        await asyncio.sleep(0.5)


async def until_committed(cluster: ServedCluster, partitions: list[TopicPartition], *, peace_since_s: float) -> None:
    """Records that senders have given up are visible then, or they never will be."""
    loop = asyncio.get_running_loop()
    while not all(_is_committed(cluster, partition) for partition in partitions):
        assert loop.time() < peace_since_s + PEACE_S_MAX, f"{partitions} are not committed to their ends"
        await asyncio.sleep(0.1)


def _is_committed(cluster: ServedCluster, partition: TopicPartition) -> bool:
    if not all(member.is_up for member in cluster.brokers.values()):
        return False
    state = cluster.image.partition(*partition)
    if state is None or state.leader is None:
        return False
    leading = cluster.brokers[state.leader].broker.node.partitions.get(*partition)
    return leading is not None and leading.log.high_watermark == leading.log.log_end_offset


def _wrong(cluster: ServedCluster) -> list[str]:
    away = [member.name for member in cluster.brokers.values() if not member.is_up]
    if away:
        return [f"{away} are not up"]
    return [text for topic in _topics(cluster) for text in _wrong_with(cluster, topic)]


def _wrong_with(cluster: ServedCluster, topic: Topic) -> Iterator[str]:
    if topic.name.startswith(DOOMED):
        return  # Asked for and not answered: it may be there or not.
    for index, state in enumerate(topic.partitions):
        partition = TopicPartition(topic.name, index)
        if state.leader is None:
            yield f"{partition} is not led"
            continue
        if sorted(state.isr) != sorted(state.replicas):
            yield f"{partition} has {state.isr} of {state.replicas} in sync"
            continue
        leading = cluster.brokers[state.leader].broker.node.partitions.get(*partition)
        if leading is None or leading.leader_epoch != state.leader_epoch:
            yield f"broker {state.leader} does not lead {partition} under epoch {state.leader_epoch}"
            continue
        if leading.log.high_watermark != leading.log.log_end_offset:
            yield f"{partition} ends at {leading.log.log_end_offset} and is committed to {leading.log.high_watermark}"
        logs = {node_id: cluster.brokers[node_id].broker.node.logs.get(partition) for node_id in state.replicas}
        contents = set()
        for node_id, log in logs.items():
            if log is None or log.offline is not None or log.topic_id != topic.id:
                yield f"broker {node_id} has no log of {partition}"
            else:
                contents.add((log.log_end_offset, _content(log)))
        if len(contents) > 1:
            yield f"the logs of {partition} differ: they end at {[log and log.log_end_offset for log in logs.values()]}"


def _content(log: PartitionLog) -> object:
    """The bytes. Each replica compacts by itself: there, what a reader gets for each key."""
    offset, found = log.log_start_offset, b""
    while offset < log.log_end_offset:
        read = log.read_copy(offset, 1_000_000).records
        if not read:
            break
        found += read
        offset = max(header.next_offset for _, header in iterate_headers(read))
    return found if log.topic_partition.topic not in INTERNAL_TOPICS else frozenset(_latest(found).items())


def _latest(batches: bytes) -> dict[bytes | None, tuple[int, bytes | None]]:
    """By key, with the offset, without what was aborted."""
    latest: dict[bytes | None, tuple[int, bytes | None]] = {}
    undecided: dict[int, list[tuple[bytes | None, tuple[int, bytes | None]]]] = {}
    for position, header in iterate_headers(batches):
        if header.is_control:
            marker = parse_marker(batches, position)
            decided = undecided.pop(header.producer_id, [])
            if marker is not None and marker.committed:
                for key, found in decided:
                    latest[key] = max(found, latest.get(key, found), key=lambda one: one[0])
            continue
        records = [(record.key, (record.offset, record.value)) for record in iterate_records(batches, position)]
        if header.is_transactional:
            undecided.setdefault(header.producer_id, []).extend(records)
        else:
            latest.update(records)
    return latest


def _topics(cluster: ServedCluster) -> Iterator[Topic]:
    tree = cluster.ensemble.tree
    for name in tree.children(paths.TOPICS):
        yield paths.decode_topic(name, tree.nodes[paths.topic_path(name)].data)


def assert_deleted_topics_are_gone(cluster: ServedCluster) -> None:
    known = {topic.id for topic in _topics(cluster)}
    for member in cluster.brokers.values():
        left = [log.topic_partition for log in member.broker.node.logs.logs.values() if log.topic_id not in known]
        assert not left, f"{member.name} has logs of topics that were deleted: {left}"
