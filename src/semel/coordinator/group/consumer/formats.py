"""The bytes of a consumer group in ``__consumer_offsets``, as Kafka 4.3 writes and reads them.

Keys are of one version and not flexible; their first two bytes are the ``Kind``, as in ``group.formats``. Kafka 4.0
wrote one more kind, the partition counts of the subscribed topics, which newer brokers replace by ``metadata_hash``.
"""

from __future__ import annotations

from uuid import UUID

from semel.wire.schema import BYTES, INT8, INT32, INT64, STRING, UUID_, array, field, message, struct


@message(versions=(0, 0), flexible_since=None)
class GroupKey:
    group_id: str = field(STRING)


@message(versions=(0, 0), flexible_since=None)
class GroupMemberKey:
    group_id: str = field(STRING)
    member_id: str = field(STRING)


@message(versions=(0, 0), flexible_since=None)
class RegularExpressionKey:
    group_id: str = field(STRING)
    regular_expression: str = field(STRING)


@message(versions=(0, 0), flexible_since=0)
class ConsumerGroupMetadataValue:
    epoch: int = field(INT32)
    metadata_hash: int = field(INT64, tag=0)


@struct
class ClassicProtocol:
    name: str = field(STRING)
    metadata: bytes = field(BYTES)


@struct
class ClassicMemberMetadata:
    session_timeout_ms: int = field(INT32)
    supported_protocols: list[ClassicProtocol] = field(array(ClassicProtocol))


@message(versions=(0, 0), flexible_since=0)
class ConsumerGroupMemberMetadataValue:
    instance_id: str | None = field(STRING, nullable=0)
    rack_id: str | None = field(STRING, nullable=0)
    client_id: str = field(STRING)
    client_host: str = field(STRING)
    subscribed_topic_names: list[str] = field(array(STRING))
    subscribed_topic_regex: str | None = field(STRING, nullable=0)
    rebalance_timeout_ms: int = field(INT32, default=-1)
    server_assignor: str | None = field(STRING, nullable=0)
    classic_member_metadata: ClassicMemberMetadata | None = field(
        ClassicMemberMetadata, nullable=0, tag=0, default=None
    )


@message(versions=(0, 0), flexible_since=0)
class TargetAssignmentMetadataValue:
    assignment_epoch: int = field(INT32)
    assignment_timestamp: int = field(INT64, tag=0)


@struct
class TargetPartitions:
    topic_id: UUID = field(UUID_)
    partitions: list[int] = field(array(INT32))


@message(versions=(0, 0), flexible_since=0)
class TargetAssignmentMemberValue:
    topic_partitions: list[TargetPartitions] = field(array(TargetPartitions))


@struct
class CurrentPartitions:
    topic_id: UUID = field(UUID_)
    partitions: list[int] = field(array(INT32))
    # KIP-1251: since which member epoch each partition is assigned.
    assignment_epochs: list[int] | None = field(array(INT32), nullable=0, tag=0, default=None)


@message(versions=(0, 0), flexible_since=0)
class CurrentMemberAssignmentValue:
    member_epoch: int = field(INT32)
    previous_member_epoch: int = field(INT32)
    state: int = field(INT8)
    assigned_partitions: list[CurrentPartitions] = field(array(CurrentPartitions))
    partitions_pending_revocation: list[CurrentPartitions] = field(array(CurrentPartitions))


@message(versions=(0, 0), flexible_since=0)
class RegularExpressionValue:
    topics: list[str] = field(array(STRING))
    version: int = field(INT64)
    timestamp: int = field(INT64)
