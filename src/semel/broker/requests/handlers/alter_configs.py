"""AlterConfigs (versions 0-2): replace all settings of a resource."""

from __future__ import annotations

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.requests.handlers.config_policy import config_policy
from semel.errors import ErrorCode
from semel.metadata.alter_configs import ConfigResult, Resource
from semel.metadata.alter_configs import alter_configs as decide
from semel.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResourceResponse, AlterConfigsResponse


async def alter_configs(node: Node, request: Request, message: AlterConfigsRequest) -> AlterConfigsResponse:
    wanted = [
        (
            Resource(resource.resource_type, resource.resource_name),
            {config.name: config.value for config in resource.configs},
        )
        for resource in message.resources
    ]
    results = await node.change(
        lambda image: decide(image, wanted, policy=config_policy(node)),
        validate_only=message.validate_only,
        unstored=lambda refusal: [ConfigResult(resource, refusal) for resource, _ in wanted],
    )
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=result.refusal.code if result.refusal else ErrorCode.NONE,
                error_message=result.refusal.message if result.refusal else None,
                resource_type=result.resource.type,
                resource_name=result.resource.name,
            )
            for result in results
        ]
    )
