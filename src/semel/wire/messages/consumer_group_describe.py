"""ConsumerGroupDescribe: groups of the consumer protocol (KIP-848), with members and assignments."""

from __future__ import annotations

from uuid import UUID

from semel.wire.schema import BOOL, INT8, INT16, INT32, STRING, UUID_, array, field, message, struct


@message(versions=(0, 1), flexible_since=0)
class ConsumerGroupDescribeRequest:
    group_ids: list[str] = field(array(STRING))
    include_authorized_operations: bool = field(BOOL)


@struct
class TopicPartitions:
    topic_id: UUID = field(UUID_)
    topic_name: str = field(STRING)
    partitions: list[int] = field(array(INT32))


@struct
class Assignment:
    topic_partitions: list[TopicPartitions] = field(array(TopicPartitions))


@struct
class Member:
    member_id: str = field(STRING)
    instance_id: str | None = field(STRING, nullable=0, default=None)
    rack_id: str | None = field(STRING, nullable=0, default=None)
    member_epoch: int = field(INT32)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    subscribed_topic_names: list[str] = field(array(STRING))
    subscribed_topic_regex: str | None = field(STRING, nullable=0, default=None)
    assignment: Assignment = field(Assignment)
    target_assignment: Assignment = field(Assignment)
    # The protocol that the member uses in this group: 0 classic, 1 consumer (KIP-848), -1 unknown.
    member_type: int = field(INT8, since=1, default=-1)


@struct
class DescribedGroup:
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0, default=None)
    group_id: str = field(STRING)
    group_state: str = field(STRING)
    group_epoch: int = field(INT32)
    assignment_epoch: int = field(INT32)
    assignor_name: str = field(STRING)
    members: list[Member] = field(array(Member))
    authorized_operations: int | None = field(INT32, absent=-(2**31))


@message(versions=(0, 1), flexible_since=0)
class ConsumerGroupDescribeResponse:
    throttle_time_ms: int = field(INT32)
    groups: list[DescribedGroup] = field(array(DescribedGroup))
