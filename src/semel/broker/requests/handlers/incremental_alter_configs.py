"""IncrementalAlterConfigs (versions 0-1): changes single settings of a resource.

The levels of loggers are changed in this process; all other settings are changed in the metadata.
"""

from __future__ import annotations

from collections import Counter

from semel.broker.config import logger_levels
from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.requests.handlers.config_policy import altered_configs, check_own_loggers, config_policy
from semel.errors import ErrorCode, KafkaError
from semel.metadata.alter_configs import Alteration, Resource, ResourceType
from semel.metadata.alter_configs import incremental_alter_configs as decide
from semel.wire.messages.alter_configs import AlterConfigsResourceResponse
from semel.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def incremental_alter_configs(
    node: Node, request: Request, message: IncrementalAlterConfigsRequest
) -> IncrementalAlterConfigsResponse:
    wanted = [
        (Resource(resource.resource_type, resource.resource_name), _alterations(resource))
        for resource in message.resources
    ]
    in_metadata = [one for one in wanted if one[0].type != ResourceType.BROKER_LOGGER]
    stored = []
    if in_metadata:
        stored = await altered_configs(
            node,
            lambda image: decide(image, in_metadata, policy=config_policy(node)),
            [resource for resource, _ in in_metadata],
            validate_only=message.validate_only,
        )
    asked = Counter(resource for resource, _ in wanted)
    results = iter(stored)
    return IncrementalAlterConfigsResponse(
        responses=[
            _altered_loggers(node, resource, alterations, asked[resource], message.validate_only)
            if resource.type == ResourceType.BROKER_LOGGER
            else next(results)
            for resource, alterations in wanted
        ]
    )


def _alterations(resource: AlterConfigsResource) -> list[Alteration]:
    return [Alteration(config.name, config.config_operation, config.value) for config in resource.configs]


def _altered_loggers(
    node: Node, resource: Resource, alterations: list[Alteration], times: int, validate_only: bool
) -> AlterConfigsResourceResponse:
    try:
        if times > 1:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        check_own_loggers(node.config.node_id, resource.name)
        decided = logger_levels.decide(alterations)
    except KafkaError as error:
        return AlterConfigsResourceResponse(error.code, error.message, resource.type, resource.name)
    if not validate_only:
        logger_levels.apply(decided, node.logger_levels_before)
    return AlterConfigsResourceResponse(ErrorCode.NONE, None, resource.type, resource.name)
