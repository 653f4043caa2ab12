"""DescribeCluster: id, controller and brokers of the cluster. Endpoint type 1 means brokers, 2 controllers."""

from __future__ import annotations

from semel.wire.schema import BOOL, INT8, INT16, INT32, STRING, array, field, message, struct


@message(versions=(0, 2), flexible_since=0)
class DescribeClusterRequest:
    include_cluster_authorized_operations: bool = field(BOOL)
    endpoint_type: int = field(INT8, since=1, default=1)
    include_fenced_brokers: bool = field(BOOL, since=2)


@struct
class DescribeClusterBroker:
    broker_id: int = field(INT32)
    host: str = field(STRING)
    port: int = field(INT32)
    rack: str | None = field(STRING, nullable=0, default=None)
    is_fenced: bool = field(BOOL, since=2)


@message(versions=(0, 2), flexible_since=0)
class DescribeClusterResponse:
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0, default=None)
    endpoint_type: int = field(INT8, since=1, default=1)
    cluster_id: str = field(STRING)
    controller_id: int | None = field(INT32, absent=-1)
    brokers: list[DescribeClusterBroker] = field(array(DescribeClusterBroker))
    cluster_authorized_operations: int | None = field(INT32, absent=-(2**31))
