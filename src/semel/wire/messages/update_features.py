"""UpdateFeatures: raise or lower the finalized level of features such as ``transaction.version``.

Upgrade types: 1 upgrade, 2 safe downgrade, 3 unsafe downgrade.
"""

from __future__ import annotations

from semel.wire.schema import BOOL, INT8, INT16, INT32, STRING, array, field, message, struct


@struct
class FeatureUpdateKey:
    feature: str = field(STRING)
    max_version_level: int = field(INT16)
    allow_downgrade: bool = field(BOOL, until=0)
    upgrade_type: int = field(INT8, since=1, default=1)


@message(versions=(0, 2), flexible_since=0)
class UpdateFeaturesRequest:
    timeout_ms: int = field(INT32, default=60000)
    feature_updates: list[FeatureUpdateKey] = field(array(FeatureUpdateKey))
    validate_only: bool = field(BOOL, since=1)


@struct
class UpdatableFeatureResult:
    feature: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)


@message(versions=(0, 2), flexible_since=0)
class UpdateFeaturesResponse:
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)
    results: list[UpdatableFeatureResult] = field(array(UpdatableFeatureResult), until=1)
