"""CreateTopics: create topics.

From version 4 on, -1 for ``num_partitions`` and ``replication_factor`` means the broker's default.
"""

from __future__ import annotations

from uuid import UUID

from semel.wire.schema import BOOL, INT8, INT16, INT32, STRING, UUID_, array, field, message, struct


@struct
class CreatableReplicaAssignment:
    partition_index: int = field(INT32)
    broker_ids: list[int] = field(array(INT32))


@struct
class CreatableTopicConfig:
    name: str = field(STRING)
    value: str | None = field(STRING, nullable=0)


@struct
class CreatableTopic:
    name: str = field(STRING)
    num_partitions: int | None = field(INT32, absent=-1)
    replication_factor: int | None = field(INT16, absent=-1)
    assignments: list[CreatableReplicaAssignment] = field(array(CreatableReplicaAssignment))
    configs: list[CreatableTopicConfig] = field(array(CreatableTopicConfig))


@message(versions=(2, 7), flexible_since=5)
class CreateTopicsRequest:
    topics: list[CreatableTopic] = field(array(CreatableTopic))
    timeout_ms: int = field(INT32, default=60000)
    validate_only: bool = field(BOOL)


@struct
class CreatableTopicConfigs:
    name: str = field(STRING)
    value: str | None = field(STRING, nullable=5)
    read_only: bool = field(BOOL)
    config_source: int = field(INT8, default=-1)
    is_sensitive: bool = field(BOOL)


@struct
class CreatableTopicResult:
    name: str = field(STRING)
    topic_id: UUID = field(UUID_, since=7)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)
    topic_config_error_code: int = field(INT16, since=5, tag=0)
    num_partitions: int = field(INT32, since=5, default=-1)
    replication_factor: int = field(INT16, since=5, default=-1)
    configs: list[CreatableTopicConfigs] | None = field(array(CreatableTopicConfigs), since=5, nullable=5)


@message(versions=(2, 7), flexible_since=5)
class CreateTopicsResponse:
    throttle_time_ms: int = field(INT32)
    topics: list[CreatableTopicResult] = field(array(CreatableTopicResult))
