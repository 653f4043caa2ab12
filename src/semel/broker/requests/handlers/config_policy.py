"""AlterConfigs and IncrementalAlterConfigs: the rules for settings, and the change that both make."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from semel.broker.config.broker_config import BROKER_SETTINGS
from semel.broker.node import Node
from semel.errors import ErrorCode
from semel.metadata.alter_configs import ConfigPolicy, ConfigResult, Resource
from semel.metadata.controller import Decision
from semel.metadata.image import ClusterImage
from semel.wire.messages.alter_configs import AlterConfigsResourceResponse


def config_policy(node: Node) -> ConfigPolicy:
    config = node.config
    return ConfigPolicy(
        topics=node.topic_policy(),
        broker_settings=BROKER_SETTINGS,
        broker_texts=config.sources.static,
        check_broker=lambda texts: config.altered(dynamic_default={}, dynamic=texts),
    )


async def altered_configs(
    node: Node,
    decide: Callable[[ClusterImage], Decision[ConfigResult]],
    resources: Sequence[Resource],
    *,
    validate_only: bool,
) -> list[AlterConfigsResourceResponse]:
    """Change settings in the metadata. ``decide`` has one result for each of the resources."""
    results = await node.change(
        decide,
        validate_only=validate_only,
        unstored=lambda refusal: [ConfigResult(resource, refusal) for resource in resources],
    )
    return [
        AlterConfigsResourceResponse(
            error_code=result.refusal.code if result.refusal else ErrorCode.NONE,
            error_message=result.refusal.message if result.refusal else None,
            resource_type=result.resource.type,
            resource_name=result.resource.name,
        )
        for result in results
    ]
