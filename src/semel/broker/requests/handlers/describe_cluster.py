"""DescribeCluster (versions 0-2): the cluster's id and its brokers."""

from __future__ import annotations

from typing import Final

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.requests.handlers.authorized_operations import cluster_operations
from semel.errors import ErrorCode
from semel.wire.messages.describe_cluster import DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse

BROKERS: Final = 1
CONTROLLERS: Final = 2


def describe_cluster(node: Node, request: Request, message: DescribeClusterRequest) -> DescribeClusterResponse:
    image = node.image
    if message.endpoint_type != BROKERS:
        mismatched = message.endpoint_type == CONTROLLERS
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if mismatched else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message=f"this is a broker; it was asked for endpoints of type {message.endpoint_type}",
            endpoint_type=message.endpoint_type,
        )
    return DescribeClusterResponse(
        endpoint_type=BROKERS,
        cluster_id=image.cluster_id,
        controller_id=node.controller_id,
        brokers=[
            DescribeClusterBroker(broker.node_id, endpoint.host, endpoint.port, broker.rack)
            for broker, endpoint in image.endpoints(request.listener)
        ],
        cluster_authorized_operations=cluster_operations(node.rights(request))
        if message.include_cluster_authorized_operations
        else None,
    )
