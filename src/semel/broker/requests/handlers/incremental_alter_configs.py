"""IncrementalAlterConfigs (versions 0-1): change single settings of a resource."""

from __future__ import annotations

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.requests.handlers.config_policy import config_policy
from semel.errors import ErrorCode
from semel.metadata.alter_configs import Alteration, ConfigResult, Resource
from semel.metadata.alter_configs import incremental_alter_configs as decide
from semel.wire.messages.alter_configs import AlterConfigsResourceResponse
from semel.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def incremental_alter_configs(
    node: Node, request: Request, message: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    wanted = [
        (
            Resource(resource.resource_type, resource.resource_name),
            [Alteration(config.name, config.config_operation, config.value) for config in resource.configs],
        )
        for resource in message.resources
    ]
    results = await node.change(
        lambda image: decide(image, wanted, policy=config_policy(node)),
        validate_only=message.validate_only,
        unstored=lambda refusal: [ConfigResult(resource, refusal) for resource, _ in wanted],
    )
    return IncrementalAlterConfigsResponse(
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
