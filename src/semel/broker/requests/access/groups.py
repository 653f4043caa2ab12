"""The rights that the APIs about groups and their offsets need."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any, Final

from semel.broker.network.request import Request
from semel.broker.requests.access.declarations import (
    SLICE_NAMES,
    Access,
    CheckedByHandler,
    Need,
    each,
    item_name,
    name_in_field,
    with_topic_id,
)
from semel.errors import ErrorCode
from semel.metadata.image import ClusterImage
from semel.security.rights import (
    DELETE_GROUP,
    DESCRIBE_CLUSTER,
    DESCRIBE_GROUP,
    DESCRIBE_TOPIC,
    READ_GROUP,
    READ_TOPIC,
    Rights,
)
from semel.wire.messages import consumer_group_describe, describe_groups
from semel.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from semel.wire.messages.delete_groups import DeletableGroupResult
from semel.wire.messages.join_group import JoinGroupResponse
from semel.wire.messages.list_groups import ListedGroup, ListGroupsResponse
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from semel.wire.messages.offset_delete import (
    OffsetDeleteRequestTopic,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

_NULL_PROTOCOL_SINCE: Final = 7

_READS_GROUP: Final = Need(READ_GROUP, name_in_field("group_id"))

HEARTBEAT: Final = Access(whole=(_READS_GROUP,))
SYNC_GROUP: Final = Access(whole=(_READS_GROUP,))
LEAVE_GROUP: Final = Access(whole=(_READS_GROUP,))


def _join_group(request: Request, message: Any, code: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=code, protocol_name=None if request.version >= _NULL_PROTOCOL_SINCE else "")


JOIN_GROUP: Final = Access(whole=(_READS_GROUP,), refuse=_join_group)


def _subscribed(image: ClusterImage, message: ConsumerGroupHeartbeatRequest) -> Iterable[str]:
    return message.subscribed_topic_names or ()


CONSUMER_GROUP_HEARTBEAT: Final = Access(
    whole=(_READS_GROUP, Need(DESCRIBE_TOPIC, _subscribed)),
)

# Offsets


def _offset_commit_topic(topic: OffsetCommitRequestTopic, code: ErrorCode) -> OffsetCommitResponseTopic:
    partitions = [OffsetCommitResponsePartition(partition.partition_index, code) for partition in topic.partitions]
    return OffsetCommitResponseTopic(topic.name, topic.topic_id, partitions)


def _offset_commit(request: Request, message: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(topics=[_offset_commit_topic(topic, code) for topic in message.topics])


OFFSET_COMMIT: Final = Access(
    whole=(_READS_GROUP,),
    refuse=_offset_commit,
    items=each("topics", "topics", Need(READ_TOPIC, with_topic_id), refused=_offset_commit_topic),
    since=10,
    earlier=Access(
        whole=(_READS_GROUP,),
        refuse=_offset_commit,
        items=each("topics", "topics", Need(READ_TOPIC, name_in_field("name")), refused=_offset_commit_topic),
    ),
)

OFFSET_FETCH: Final = Access(
    checked_by_handler=(
        CheckedByHandler(DESCRIBE_GROUP, "the group is refused"),
        CheckedByHandler(
            DESCRIBE_TOPIC, "each partition of a topic that is named is refused, one that is not is left out"
        ),
    )
)


def _offset_delete(topic: OffsetDeleteRequestTopic, code: ErrorCode) -> OffsetDeleteResponseTopic:
    partitions = [OffsetDeleteResponsePartition(partition.partition_index, code) for partition in topic.partitions]
    return OffsetDeleteResponseTopic(topic.name, partitions)


OFFSET_DELETE: Final = Access(
    whole=(Need(DELETE_GROUP, name_in_field("group_id")),),
    items=each("topics", "topics", Need(READ_TOPIC, name_in_field("name")), refused=_offset_delete),
)

# Descriptions


def _only_described(rights: Rights, response: ListGroupsResponse) -> Generator[None, None, None]:
    if rights.may(DESCRIBE_CLUSTER):
        return
    groups, kept = response.groups, list[ListedGroup]()
    for start in range(0, len(groups), SLICE_NAMES):
        some = groups[start : start + SLICE_NAMES]
        kept += (group for group in some if rights.may(DESCRIBE_GROUP, group.group_id))
        yield
    response.groups = kept


LIST_GROUPS: Final = Access(
    answer=_only_described,
    checked_by_handler=(
        CheckedByHandler(DESCRIBE_CLUSTER, f"only groups with {DESCRIBE_GROUP} are listed"),
        CheckedByHandler(DESCRIBE_GROUP, "the group is left out"),
    ),
)


def _describe_groups(group_id: str, code: ErrorCode) -> describe_groups.DescribedGroup:
    return describe_groups.DescribedGroup(code, group_id=group_id)


DESCRIBE_GROUPS: Final = Access(
    items=each("groups", "groups", Need(DESCRIBE_GROUP, item_name), refused=_describe_groups),
)


def _delete_groups(group_id: str, code: ErrorCode) -> DeletableGroupResult:
    return DeletableGroupResult(group_id, code)


DELETE_GROUPS: Final = Access(
    items=each("groups_names", "results", Need(DELETE_GROUP, item_name), refused=_delete_groups),
)


def _consumer_group_describe(group_id: str, code: ErrorCode) -> consumer_group_describe.DescribedGroup:
    return consumer_group_describe.DescribedGroup(code, group_id=group_id)


def _without_hidden_topics(
    rights: Rights, response: consumer_group_describe.ConsumerGroupDescribeResponse
) -> Generator[None, None, None]:
    for number, group in enumerate(response.groups):
        names: set[str] = set()
        for member in group.members:
            for assignment in (member.assignment, member.target_assignment):
                names.update(topic.topic_name for topic in assignment.topic_partitions)
        if not all(rights.may(DESCRIBE_TOPIC, name) for name in names):
            refused = _consumer_group_describe(group.group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            refused.error_message = "members of the group have topics that the client may not describe"
            response.groups[number] = refused
        yield


CONSUMER_GROUP_DESCRIBE: Final = Access(
    items=each("group_ids", "groups", Need(DESCRIBE_GROUP, item_name), refused=_consumer_group_describe),
    answer=_without_hidden_topics,
    checked_by_handler=(CheckedByHandler(DESCRIBE_TOPIC, "a group whose members have the topic is refused"),),
)
