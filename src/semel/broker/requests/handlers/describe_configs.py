"""DescribeConfigs (versions 1-4): the settings of topics and of this broker, and where each value comes from."""

from __future__ import annotations

from semel.broker.config.config_entries import ConfigEntry, all_brokers_entries, broker_entries, topic_entries
from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.errors import ErrorCode, KafkaError
from semel.metadata.alter_configs import ResourceType
from semel.metadata.topic_names import check_topic_name
from semel.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


def describe_configs(node: Node, request: Request, message: DescribeConfigsRequest) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[
            _described(node, resource, message.include_synonyms, message.include_documentation)
            for resource in message.resources
        ]
    )


def _described(
    node: Node, resource: DescribeConfigsResource, synonyms: bool, documentation: bool
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    try:
        entries = _entries(node, resource)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
    else:
        result.configs = [_config(entry, synonyms, documentation) for entry in entries]
    return result


def _entries(node: Node, resource: DescribeConfigsResource) -> list[ConfigEntry]:
    names = resource.configuration_keys or None
    name = resource.resource_name
    match resource.resource_type:
        case ResourceType.TOPIC:
            check_topic_name(name)
            topic = node.image.topics.get(name)
            if topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
            return topic_entries(topic.configs, node.config, names)
        case ResourceType.BROKER if name == "":
            return all_brokers_entries(node.config, names)
        case ResourceType.BROKER if name == str(node.config.node_id):
            return broker_entries(node.config, names)
        case ResourceType.BROKER:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Unexpected broker id, expected {node.config.node_id} or empty string, but received {name}",
            )
        case unknown:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"Resource type {unknown} has no configs here; TOPIC (2) and BROKER (4) have.",
            )


def _config(entry: ConfigEntry, synonyms: bool, documentation: bool) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[DescribeConfigsSynonym(synonym.name, synonym.value, synonym.source) for synonym in entry.synonyms]
        if synonyms
        else [],
        config_type=entry.type,
        documentation=entry.documentation if documentation else None,
    )
