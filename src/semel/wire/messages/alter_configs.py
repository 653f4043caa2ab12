"""AlterConfigs: replace all settings of a resource. A setting that is not in the request gets its default again."""

from __future__ import annotations

from semel.wire.schema import BOOL, INT8, INT16, INT32, STRING, array, field, message, struct


@struct
class AlterableConfig:
    name: str = field(STRING)
    value: str | None = field(STRING, nullable=0)


@struct
class AlterConfigsResource:
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configs: list[AlterableConfig] = field(array(AlterableConfig))


@message(versions=(0, 2), flexible_since=2)
class AlterConfigsRequest:
    resources: list[AlterConfigsResource] = field(array(AlterConfigsResource))
    validate_only: bool = field(BOOL)


@struct
class AlterConfigsResourceResponse:
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)


@message(versions=(0, 2), flexible_since=2)
class AlterConfigsResponse:
    throttle_time_ms: int = field(INT32)
    responses: list[AlterConfigsResourceResponse] = field(array(AlterConfigsResourceResponse))
