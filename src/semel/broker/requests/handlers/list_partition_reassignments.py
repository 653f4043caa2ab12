"""ListPartitionReassignments (version 0): always empty, because replicas are never moved to other brokers."""

from __future__ import annotations

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def list_partition_reassignments(
    node: Node, request: Request, message: ListPartitionReassignmentsRequest
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_message=None)
