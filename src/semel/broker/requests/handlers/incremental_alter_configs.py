"""IncrementalAlterConfigs (versions 0-1): change single settings of a resource."""

from __future__ import annotations

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.requests.handlers.config_policy import altered_configs, config_policy
from semel.metadata.alter_configs import Alteration, Resource
from semel.metadata.alter_configs import incremental_alter_configs as decide
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
    return IncrementalAlterConfigsResponse(
        responses=await altered_configs(
            node,
            lambda image: decide(image, wanted, policy=config_policy(node)),
            [resource for resource, _ in wanted],
            validate_only=message.validate_only,
        )
    )
