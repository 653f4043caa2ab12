"""DescribeConfigs (versions 1-4): the settings of topics, groups, client metrics, this broker and its loggers.

Each setting has the source of its value.

A short request may ask for the same topic a hundred thousand times, so the size of the response is limited; the error
of resources beyond the limit is INVALID_REQUEST.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from semel.broker.config import logger_levels
from semel.broker.config.config_entries import (
    DescribedConfig,
    all_brokers_entries,
    broker_entries,
    client_metrics_entries,
    group_entries,
    logger_entries,
    topic_entries,
)
from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.requests.handlers.config_policy import check_own_loggers
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

_FIXED_BYTES: Final = 16  # The size of a setting's fields that are not texts.
ANSWER_BYTES_MAX: Final = 32 * 2**20
"""The limit of the response, which is enough for the settings of 10,000 topics."""


def describe_configs(node: Node, request: Request, message: DescribeConfigsRequest) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[
            _described(node, request, resource, message.include_synonyms, message.include_documentation)
            for resource in message.resources
        ]
    )


def _described(
    node: Node, request: Request, resource: DescribeConfigsResource, synonyms: bool, documentation: bool
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    try:
        if request.response_elements >= ANSWER_BYTES_MAX:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"the answer has {request.response_elements} bytes already; ask for fewer resources at once",
            )
        entries = _entries(node, resource)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
        return result
    for entry in entries:
        config, size_bytes = _config(entry, synonyms, documentation)
        result.configs.append(config)
        request.response_elements += size_bytes
    return result


def _entries(node: Node, resource: DescribeConfigsResource) -> list[DescribedConfig]:
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
        case ResourceType.BROKER_LOGGER:
            check_own_loggers(node.config.node_id, name)
            return logger_entries(logger_levels.levels(), names)
        case ResourceType.GROUP | ResourceType.CLIENT_METRICS if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The name of a group or client metrics must not be empty.")
        case ResourceType.GROUP:
            return group_entries(node.image.group_configs.get(name, {}), node.config, names)
        case ResourceType.CLIENT_METRICS:
            return client_metrics_entries(node.image.client_metrics.get(name, {}), names)
        case unknown:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unexpected resource type {unknown}")


@lru_cache(maxsize=2048)
def _config(entry: DescribedConfig, synonyms: bool, documentation: bool) -> tuple[DescribeConfigsResourceResult, int]:
    """Return the description of a setting, and its approximate size.

    Topics with the same value share one description.
    """
    included = entry.synonyms if synonyms else ()
    text = entry.documentation if documentation else None
    result = DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[DescribeConfigsSynonym(synonym.name, synonym.value, synonym.source) for synonym in included],
        config_type=entry.type,
        documentation=text,
    )
    texts = [entry.name, entry.value, text, *(part for synonym in included for part in (synonym.name, synonym.value))]
    return result, _FIXED_BYTES + sum(len(part) + 2 for part in texts if part is not None)
