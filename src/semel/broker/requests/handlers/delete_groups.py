"""DeleteGroups (versions 0-2): deletes groups without members, and their offsets."""

from __future__ import annotations

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.requests.handlers.ask_each import Respond, ask_each
from semel.coordinator.decision import Waiter
from semel.coordinator.group.offsets.offset_results import DeleteGroupResult
from semel.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def delete_groups(node: Node, request: Request, message: DeleteGroupsRequest) -> None:
    asked = list(dict.fromkeys(message.groups_names))

    def delete(group_id: str, respond: Respond[DeleteGroupResult]) -> None:
        node.coordinators.groups.run(
            group_id, lambda shard: shard.offsets.delete_group(group_id), Waiter(respond, DeleteGroupResult)
        )

    def response(deleted: list[DeleteGroupResult]) -> DeleteGroupsResponse:
        errors = [result.error for result in deleted]
        return DeleteGroupsResponse(results=list(map(DeletableGroupResult, asked, errors)))

    ask_each(request, asked, delete, response)
