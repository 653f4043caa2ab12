"""Committing and fetching offsets of a group, in the version that a test asks for."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from semel.types import ZERO_UUID
from semel.wire.apis import ApiKey
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from tests.broker.raw_client import RawClient

Fetched = tuple[int, int | None, int | None, str | None]
"""Error, offset, leader epoch, metadata."""

GROUP_ERROR = ("", -1)


def topic_id(client: RawClient, topic: str) -> UUID:
    asked = MetadataRequest([MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    found: UUID = client.call(ApiKey.METADATA, 12, asked).topics[0].topic_id
    return found


def commit(
    client: RawClient,
    group: str,
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    version: int = 8,
    leader_epoch: int | None = None,
    metadata: str = "note",
    **who: Any,
) -> int:
    place = OffsetCommitRequestPartition(partition, offset, leader_epoch, metadata)
    identity = topic_id(client, topic) if version >= 10 else ZERO_UUID
    request = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(topic, identity, [place])], **who)
    ((answer,),) = (t.partitions for t in client.call(ApiKey.OFFSET_COMMIT, version, request).topics)
    code: int = answer.error_code
    return code


def fetch(
    client: RawClient, group: str, topics: list[tuple[str, list[int]]] | None, *, version: int = 7, stable: bool = False
) -> dict[tuple[str, int], Fetched]:
    """What is told of every partition, under the topic's name, or its id from version 10 on; or of ``GROUP_ERROR``."""
    request = OffsetFetchRequest(require_stable=stable)
    answer: Any
    if version < 8:
        request.group_id = group
        request.topics = None if topics is None else [OffsetFetchRequestTopic(*topic) for topic in topics]
        answer = client.call(ApiKey.OFFSET_FETCH, version, request)
    else:
        asked = None
        if topics is not None:
            asked = [
                OffsetFetchRequestTopics(name, topic_id(client, name) if version >= 10 else ZERO_UUID, partitions)
                for name, partitions in topics
            ]
        request.groups = [OffsetFetchRequestGroup(group, topics=asked)]
        (answer,) = client.call(ApiKey.OFFSET_FETCH, version, request).groups
    if answer.error_code:
        return {GROUP_ERROR: (answer.error_code, None, None, "")}
    return {
        (str(topic.topic_id) if version >= 10 else topic.name, p.partition_index): (
            p.error_code,
            p.committed_offset,
            p.committed_leader_epoch,
            p.metadata,
        )
        for topic in answer.topics
        for p in topic.partitions
    }


def fetch_offset(client: RawClient, group: str, topic: str, *, stable: bool = False) -> tuple[int, int | None]:
    """(error, offset) of partition 0."""
    error, offset, _, _ = fetch(client, group, [(topic, [0])], stable=stable)[topic, 0]
    return error, offset
