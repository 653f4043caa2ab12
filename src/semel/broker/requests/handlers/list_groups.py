"""ListGroups (versions 0-5): the groups of this broker, filtered by state (from version 4 on) and type (from 5 on)."""

from __future__ import annotations

from functools import partial
from typing import Any

from semel.broker.coordinators.every_shard import ask, each_shard, slices
from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.coordinator.decision import Decision
from semel.coordinator.group.descriptions import GroupListing
from semel.coordinator.group.shard import GroupShard
from semel.errors import ErrorCode, KafkaError
from semel.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


async def list_groups(node: Node, request: Request, message: ListGroupsRequest) -> ListGroupsResponse:
    # Kafka's tools and brokers write states and types in different case.
    states = frozenset(state.lower() for state in message.states_filter)
    types = frozenset(group_type.lower() for group_type in message.types_filter)
    response = ListGroupsResponse()
    async for runtime in each_shard(node.coordinators.groups, node.turns):
        try:
            group_ids = await ask(runtime, lambda shard: Decision(shard.group_ids()))
        except KafkaError as refusal:
            if refusal.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                # The list would be wrong without the groups of a shard that is loading: refuse the request.
                return ListGroupsResponse(error_code=refusal.code)
            continue  # The groups of a shard that has lost its leadership or failed are left out.
        async for some in slices(group_ids, node.turns):
            try:
                found = await ask(runtime, partial(_listed, some, states, types))
            except KafkaError:
                return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            response.groups += (
                ListedGroup(listed.group_id, listed.protocol_type, listed.state_name, listed.kind) for listed in found
            )
    return response


def _listed(
    group_ids: list[str], states: frozenset[str], types: frozenset[str], shard: GroupShard
) -> Decision[tuple[GroupListing, ...], Any, Any]:
    return Decision(shard.list_groups(group_ids, states=states, types=types))
