"""Requests about a group's committed offsets, which its coordinator serves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from semel.client.admin.partitions import by_topic
from semel.client.machine.admin.ask import Ask, Refusal, coordinator_of_group, outcome
from semel.client.values import OffsetAndMetadata
from semel.errors import ErrorCode, named
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from semel.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

_MANY_GROUPS_SINCE: Final = 8
_STABLE_SINCE: Final = 7
_ALL_TOPICS_SINCE: Final = 2
# From the next version on, topics have ids instead of names, and a group may have offsets of a deleted topic.
_NAMES_UNTIL: Final = 9


def named_group(group_id: str) -> str:
    return f"group {group_id!r}"


def fetch_offsets(
    partitions: Sequence[TopicPartition] | None, require_stable: bool, *, many_groups: bool = False
) -> Ask[str, dict[TopicPartition, OffsetAndMetadata]]:
    """Return the ask for an OffsetFetch.

    ``partitions``: ``None`` for all that have a committed offset. ``many_groups``: one request for all groups of a
    coordinator.
    """

    def build(group_ids: Sequence[str], version: int) -> OffsetFetchRequest:
        topics = None if partitions is None else list(by_topic(partitions).items())
        if version < _MANY_GROUPS_SINCE:
            older = None if topics is None else [OffsetFetchRequestTopic(*topic) for topic in topics]
            return OffsetFetchRequest(group_ids[0], older, require_stable=require_stable)
        newer = None if topics is None else [OffsetFetchRequestTopics(name, partition_indexes=p) for name, p in topics]
        groups = [OffsetFetchRequestGroup(group_id, topics=newer) for group_id in group_ids]
        return OffsetFetchRequest(groups=groups, require_stable=require_stable)

    return Ask(
        ApiKey.OFFSET_FETCH,
        target=coordinator_of_group,
        build=build,
        read=_fetched,
        name=named_group,
        is_single=not many_groups,
        version_min=_MANY_GROUPS_SINCE if many_groups else _STABLE_SINCE if require_stable else _ALL_TOPICS_SINCE,
        version_max=_NAMES_UNTIL,
    )


def _fetched(
    response: OffsetFetchResponse, group_ids: Sequence[str], version: int
) -> Iterator[tuple[str, dict[TopicPartition, OffsetAndMetadata] | Refusal]]:
    if version < _MANY_GROUPS_SINCE:
        yield group_ids[0], _offsets(response.topics, response.error_code)
    for group in response.groups:
        yield group.group_id, _offsets(group.topics, group.error_code)


def _offsets(
    topics: Iterable[OffsetFetchResponseTopic] | Iterable[OffsetFetchResponseTopics], error_code: int
) -> dict[TopicPartition, OffsetAndMetadata] | Refusal:
    if error_code != ErrorCode.NONE:
        return Refusal(named(error_code))
    offsets: dict[TopicPartition, OffsetAndMetadata] = {}
    for topic in topics:
        for partition in topic.partitions:
            topic_partition = TopicPartition(topic.name, partition.partition_index)
            if partition.error_code != ErrorCode.NONE:
                return Refusal(named(partition.error_code), f"the offset of {topic_partition}")
            offset = partition.committed_offset
            if offset is not None:
                offsets[topic_partition] = OffsetAndMetadata(
                    offset, partition.metadata or "", partition.committed_leader_epoch
                )
    return offsets


def commit_offsets(group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> Ask[TopicPartition, None]:
    """Commit for a group without being a member: refused while the group has members."""

    def partition(topic: str, index: int) -> OffsetCommitRequestPartition:
        offset = offsets[TopicPartition(topic, index)]
        return OffsetCommitRequestPartition(index, offset.offset, offset.leader_epoch, offset.metadata)

    return Ask(
        ApiKey.OFFSET_COMMIT,
        target=lambda topic_partition: coordinator_of_group(group_id),
        build=lambda partitions, version: OffsetCommitRequest(
            group_id,
            topics=[
                OffsetCommitRequestTopic(topic, partitions=[partition(topic, index) for index in indexes])
                for topic, indexes in by_topic(partitions).items()
            ],
        ),
        read=lambda response, partitions, version: [
            (TopicPartition(topic.name, answer.partition_index), outcome(None, answer.error_code))
            for topic in response.topics
            for answer in topic.partitions
        ],
        name=lambda topic_partition: f"{topic_partition} for group {group_id!r}",
        version_max=_NAMES_UNTIL,
    )


def delete_offsets(group_id: str) -> Ask[TopicPartition, None]:
    def read(
        response: OffsetDeleteResponse, partitions: Sequence[TopicPartition], version: int
    ) -> list[tuple[TopicPartition, Refusal | None]]:
        if response.error_code != ErrorCode.NONE:
            return [(topic_partition, Refusal(named(response.error_code))) for topic_partition in partitions]
        return [
            (TopicPartition(topic.name, answer.partition_index), outcome(None, answer.error_code))
            for topic in response.topics
            for answer in topic.partitions
        ]

    return Ask(
        ApiKey.OFFSET_DELETE,
        target=lambda topic_partition: coordinator_of_group(group_id),
        build=lambda partitions, version: OffsetDeleteRequest(
            group_id,
            [
                OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(index) for index in indexes])
                for topic, indexes in by_topic(partitions).items()
            ],
        ),
        read=read,
        name=lambda topic_partition: f"{topic_partition} for group {group_id!r}",
    )
