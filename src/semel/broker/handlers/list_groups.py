"""ListGroups (versions 0-5): the groups that this broker coordinates, by state (4) and type (5)."""

from __future__ import annotations

from semel.broker.every_shard import of_each_shard
from semel.broker.node import Node
from semel.broker.request import Request
from semel.coordinator.decision import Decision
from semel.coordinator.group.descriptions import GroupListing
from semel.errors import ErrorCode
from semel.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


async def list_groups(node: Node, request: Request, message: ListGroupsRequest) -> ListGroupsResponse:
    # Kafka's tools write states and types in other cases than its brokers do.
    states = frozenset(state.lower() for state in message.states_filter)
    types = frozenset(group_type.lower() for group_type in message.types_filter)
    return _merged(
        await of_each_shard(
            node.coordinators.groups, lambda shard: Decision(shard.list_groups(states=states, types=types))
        )
    )


def _merged(listings: list[tuple[GroupListing, ...] | ErrorCode]) -> ListGroupsResponse:
    """One shard that cannot say yet makes the whole list wrong, so then there is none. What is lost is left out."""
    response = ListGroupsResponse()
    for found in listings:
        if found is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ListGroupsResponse(error_code=found)
        if not isinstance(found, ErrorCode):
            response.groups += (
                ListedGroup(listed.group_id, listed.protocol_type, listed.state_name, listed.kind) for listed in found
            )
    return response
