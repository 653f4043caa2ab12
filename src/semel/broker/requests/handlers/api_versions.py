"""ApiVersions (versions 0-4): the APIs, versions and features of this broker. It is the first request of a client."""

from __future__ import annotations

import re
from typing import Final

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.requests.routes import asked_by_brokers, served_apis
from semel.errors import ErrorCode
from semel.wire.apis import Api
from semel.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

SOFTWARE_SINCE: Final = 3
FEATURES_FROM_ZERO_SINCE: Final = 4

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def api_versions(node: Node, request: Request, message: ApiVersionsRequest) -> ApiVersionsResponse:
    if request.version >= SOFTWARE_SINCE and not (
        _SOFTWARE.fullmatch(message.client_software_name) and _SOFTWARE.fullmatch(message.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    request.cacheable(node.answers)
    return ApiVersionsResponse(
        api_keys=[_range(api) for api in (asked_by_brokers() if request.is_from_broker else served_apis())],
        supported_features=[
            SupportedFeatureKey(name, levels.min_level, levels.max_level)
            for name, levels in node.features.supported.items()
            # Older clients treat a range that begins at 0 as an error (KIP-1022).
            if levels.min_level > 0 or request.version >= FEATURES_FROM_ZERO_SINCE
        ],
        finalized_features_epoch=node.features.epoch,
        finalized_features=[
            FinalizedFeatureKey(name, max_version_level=level, min_version_level=level)
            for name, level in node.features.finalized.items()
        ],
    )


def unsupported_version(api: Api) -> ApiVersionsResponse:
    """Return the response for a newer client, with the versions of ApiVersions that it may use instead (KIP-511)."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_range(api)])


def _range(api: Api) -> ApiVersion:
    return ApiVersion(api.key, api.advertised_min_version, api.max_version)
