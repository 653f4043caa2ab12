"""ListConfigResources: the resources that have settings of their own. Version 0 lists only client metrics (16)."""

from __future__ import annotations

from semel.wire.schema import INT8, INT16, INT32, STRING, array, field, message, struct


@message(versions=(0, 1), flexible_since=0)
class ListConfigResourcesRequest:
    resource_types: list[int] = field(array(INT8), since=1)


@struct
class ConfigResource:
    resource_name: str = field(STRING)
    resource_type: int = field(INT8, since=1, default=16)


@message(versions=(0, 1), flexible_since=0)
class ListConfigResourcesResponse:
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    config_resources: list[ConfigResource] = field(array(ConfigResource))
