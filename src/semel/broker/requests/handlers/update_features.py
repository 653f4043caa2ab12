"""UpdateFeatures (versions 0-2): the levels of the cluster's features cannot be changed while the cluster runs.

A level is set by a setting at the first start of the first broker (``transaction.version``, ``group.version``). So a
request for the current level succeeds, and a request for another one is refused with Kafka's error code.
"""

from __future__ import annotations

from typing import Final

from semel.broker.config.features import BrokerFeatures
from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.errors import ErrorCode
from semel.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE_TYPE_SINCE: Final = 1
ALL_OR_NONE_SINCE: Final = 2
UPGRADE: Final = 1
DOWNGRADES: Final = (2, 3)


def update_features(node: Node, request: Request, message: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    results = []
    for update in message.feature_updates:
        refusal = refusal_of(node.features, update, version=request.version)
        if refusal is not None and request.version >= ALL_OR_NONE_SINCE:
            return UpdateFeaturesResponse(
                error_code=ErrorCode.INVALID_UPDATE_VERSION,
                error_message=f"The update failed for all features since the following feature had an error: {refusal}",
            )
        code = ErrorCode.NONE if refusal is None else ErrorCode.INVALID_UPDATE_VERSION
        results.append(UpdatableFeatureResult(update.feature, code, refusal))
    return UpdateFeaturesResponse(error_message=None, results=results)


def refusal_of(features: BrokerFeatures, update: FeatureUpdateKey, *, version: int) -> str | None:
    """Return the reason why a feature cannot get this level, or None if it has it already."""
    name, level = update.feature, update.max_version_level
    invalid = f"Invalid update version {level} for feature {name}."
    supported = features.supported.get(name)
    if supported is None:
        return f"{invalid} This broker does not support this feature."
    if not supported.min_level <= level <= supported.max_level:
        return f"{invalid} This broker only supports versions {supported.min_level}-{supported.max_level}"
    current = features.finalized.get(name, 0)
    if level == current:
        return None
    downgrades = update.allow_downgrade if version < UPGRADE_TYPE_SINCE else update.upgrade_type in DOWNGRADES
    if level < current and not downgrades:
        return (
            f"{invalid} Can't downgrade the version of this feature without setting the upgrade type to either safe or "
            "unsafe downgrade."
        )
    return (
        f"{invalid} The cluster was made with {name}={current}, and the level does not change while it runs: it is the "
        f"setting {name} of the first start"
    )
