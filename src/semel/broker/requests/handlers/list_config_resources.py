"""ListConfigResources (versions 0-1): the resources with settings. Version 0 lists client metrics only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.errors import ErrorCode
from semel.metadata.alter_configs import ResourceType
from semel.metadata.image import ClusterImage
from semel.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

TYPES_SINCE: Final = 1
_ALL: Final = (
    ResourceType.TOPIC,
    ResourceType.BROKER,
    ResourceType.BROKER_LOGGER,
    ResourceType.CLIENT_METRICS,
    ResourceType.GROUP,
)


def list_config_resources(
    node: Node, request: Request, message: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    wanted: Iterable[int] = (ResourceType.CLIENT_METRICS,)
    if request.version >= TYPES_SINCE:
        wanted = dict.fromkeys(message.resource_types) or _ALL
    if not set(wanted) <= set(_ALL):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(name, resource_type)
            for resource_type in wanted
            for name in _names(node.image, ResourceType(resource_type))
        ]
    )


def _names(image: ClusterImage, resource_type: ResourceType) -> Iterable[str]:
    match resource_type:
        case ResourceType.TOPIC:
            return image.topics
        case ResourceType.BROKER | ResourceType.BROKER_LOGGER:
            return map(str, image.brokers)
        case ResourceType.CLIENT_METRICS:
            return image.client_metrics
        case _:
            return image.group_configs
