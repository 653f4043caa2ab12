"""ApiVersions: the APIs, with their versions, and the features that a broker supports.

It is the first request on a connection. Its response always has header v0. The response to an unknown version is
UNSUPPORTED_VERSION with a body of version 0. Clients switch to transactions V2 only if ``finalized_features`` has
``transaction.version`` 2 and ``finalized_features_epoch`` is not negative.

Up to version 3, a supported feature whose ``min_version`` is 0 must be left out: Java clients with these versions
refuse it.
"""

from __future__ import annotations

from semel.wire.schema import BOOL, INT16, INT32, INT64, STRING, array, field, message, struct


@message(versions=(0, 4), flexible_since=3)
class ApiVersionsRequest:
    client_software_name: str = field(STRING, since=3)
    client_software_version: str = field(STRING, since=3)


@struct
class ApiVersion:
    api_key: int = field(INT16)
    min_version: int = field(INT16)
    max_version: int = field(INT16)


@struct
class SupportedFeatureKey:
    name: str = field(STRING)
    min_version: int = field(INT16)
    max_version: int = field(INT16)


@struct
class FinalizedFeatureKey:
    name: str = field(STRING)
    max_version_level: int = field(INT16)
    min_version_level: int = field(INT16)


@message(versions=(0, 4), flexible_since=3)
class ApiVersionsResponse:
    error_code: int = field(INT16)
    api_keys: list[ApiVersion] = field(array(ApiVersion))
    throttle_time_ms: int = field(INT32, since=1)
    supported_features: list[SupportedFeatureKey] = field(array(SupportedFeatureKey), since=3, tag=0)
    finalized_features_epoch: int | None = field(INT64, since=3, tag=1, absent=-1)
    finalized_features: list[FinalizedFeatureKey] = field(array(FinalizedFeatureKey), since=3, tag=2)
    zk_migration_ready: bool = field(BOOL, since=3, tag=3)
