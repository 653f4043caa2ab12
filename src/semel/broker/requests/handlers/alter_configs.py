"""AlterConfigs (versions 0-2): replaces all settings of a resource."""

from __future__ import annotations

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.requests.handlers.config_policy import altered_configs, config_policy
from semel.metadata.alter_configs import Resource
from semel.metadata.alter_configs import alter_configs as decide
from semel.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse


async def alter_configs(node: Node, request: Request, message: AlterConfigsRequest) -> AlterConfigsResponse:
    wanted = [
        (
            Resource(resource.resource_type, resource.resource_name),
            [(config.name, config.value) for config in resource.configs],
        )
        for resource in message.resources
    ]
    return AlterConfigsResponse(
        responses=await altered_configs(
            node,
            lambda image: decide(image, wanted, policy=config_policy(node)),
            [resource for resource, _ in wanted],
            validate_only=message.validate_only,
        )
    )
