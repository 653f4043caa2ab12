"""Shared by AlterConfigs and IncrementalAlterConfigs: the rules for settings, and the change of the metadata."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from semel.broker.config.broker_config import BROKER_SETTINGS
from semel.broker.config.client_metrics_config import CLIENT_METRICS_SETTINGS, check_client_metrics
from semel.broker.config.group_overrides import GROUP_SETTINGS, check_group_overrides
from semel.broker.node import Node
from semel.errors import ErrorCode, KafkaError
from semel.metadata.alter_configs import ConfigPolicy, ConfigResult, KindPolicy, Resource
from semel.metadata.controller import MetadataDecision
from semel.metadata.image import ClusterImage
from semel.wire.messages.alter_configs import AlterConfigsResourceResponse


def config_policy(node: Node) -> ConfigPolicy:
    config = node.config
    return ConfigPolicy(
        topics=node.topic_policy(),
        broker_settings=BROKER_SETTINGS,
        broker_texts=config.sources.static,
        check_broker=lambda texts: config.altered(dynamic_default={}, dynamic=texts),
        groups=KindPolicy(GROUP_SETTINGS, ErrorCode.INVALID_CONFIG, partial(check_group_overrides, config)),
        client_metrics=KindPolicy(CLIENT_METRICS_SETTINGS, ErrorCode.INVALID_REQUEST, check_client_metrics),
    )


def check_own_loggers(node_id: int, name: str) -> None:
    """Check that a resource of loggers, whose name is a broker id, is this broker. Raises ``KafkaError``."""
    if name != str(node_id):
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node_id} but received {name}")


async def altered_configs(
    node: Node,
    decide: Callable[[ClusterImage], MetadataDecision[ConfigResult]],
    resources: Sequence[Resource],
    *,
    validate_only: bool,
) -> list[AlterConfigsResourceResponse]:
    """Change settings in the metadata. ``decide`` returns one result for each of the resources."""
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
