"""Metadata: the brokers of the cluster, and the leaders and replicas of partitions.

Null ``topics`` mean all topics; in version 0 an empty list means that. The request may create topics that it names and
that do not exist.
"""

from __future__ import annotations

from uuid import UUID

from semel.wire.schema import BOOL, INT16, INT32, STRING, UUID_, array, field, message, struct


@struct
class MetadataRequestTopic:
    topic_id: UUID = field(UUID_, since=10)
    name: str | None = field(STRING, nullable=10)


@message(versions=(0, 13), flexible_since=9)
class MetadataRequest:
    topics: list[MetadataRequestTopic] | None = field(array(MetadataRequestTopic), nullable=1)
    allow_auto_topic_creation: bool = field(BOOL, since=4, default=True)
    include_cluster_authorized_operations: bool = field(BOOL, since=8, until=10)
    include_topic_authorized_operations: bool = field(BOOL, since=8)


@struct
class MetadataResponseBroker:
    node_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, since=1, nullable=1, default=None)


@struct
class MetadataResponsePartition:
    error_code: int = field(INT16)
    partition_index: int = field(INT32)
    leader_id: int | None = field(INT32, absent=-1)
    leader_epoch: int | None = field(INT32, since=7, absent=-1)
    replica_nodes: list[int] = field(array(INT32))
    isr_nodes: list[int] = field(array(INT32))
    offline_replicas: list[int] = field(array(INT32), since=5)


@struct
class MetadataResponseTopic:
    error_code: int = field(INT16)
    name: str | None = field(STRING, nullable=12)
    topic_id: UUID = field(UUID_, since=10)
    is_internal: bool = field(BOOL, since=1)
    partitions: list[MetadataResponsePartition] = field(array(MetadataResponsePartition))
    # A bit for each operation. The lowest integer means that the request did not ask for it.
    topic_authorized_operations: int | None = field(INT32, since=8, absent=-(2**31))


@message(versions=(0, 13), flexible_since=9)
class MetadataResponse:
    throttle_time_ms: int = field(INT32, since=3)
    brokers: list[MetadataResponseBroker] = field(array(MetadataResponseBroker))
    cluster_id: str | None = field(STRING, since=2, nullable=2, default=None)
    controller_id: int | None = field(INT32, since=1, absent=-1)
    topics: list[MetadataResponseTopic] = field(array(MetadataResponseTopic))
    cluster_authorized_operations: int | None = field(INT32, since=8, until=10, absent=-(2**31))
    error_code: int = field(INT16, since=13)
