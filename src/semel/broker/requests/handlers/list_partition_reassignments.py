"""ListPartitionReassignments (version 0): no replica is ever being moved, so there is nothing to list."""

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
