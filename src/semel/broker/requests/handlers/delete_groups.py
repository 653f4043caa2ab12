"""DeleteGroups (versions 0-2): groups without members, and their offsets."""

from __future__ import annotations

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.coordinator.decision import Waiter
from semel.coordinator.group.offsets.offset_results import DeleteGroupResult
from semel.errors import ErrorCode
from semel.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def delete_groups(node: Node, request: Request, message: DeleteGroupsRequest) -> None:
    asked = list(dict.fromkeys(message.groups_names))
    errors: dict[str, ErrorCode] = {}

    def answer_if_complete() -> None:
        if len(errors) == len(asked):
            response = DeleteGroupsResponse(
                results=[DeletableGroupResult(group_id, errors[group_id]) for group_id in asked]
            )
            request.answer_delayed(lambda: response)

    def delete(group_id: str) -> None:
        def respond(result: DeleteGroupResult) -> None:
            errors[group_id] = result.error
            answer_if_complete()

        node.coordinators.groups.run(
            group_id, lambda shard: shard.offsets.delete_group(group_id), Waiter(respond, DeleteGroupResult)
        )

    for group_id in asked:
        delete(group_id)
    if not asked:
        answer_if_complete()
    request.hold_until_answered()
