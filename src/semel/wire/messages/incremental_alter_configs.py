"""IncrementalAlterConfigs: change single settings of a resource.

Operations: 0 set, 1 delete, 2 append to a list, 3 subtract from a list.
"""

from __future__ import annotations

from semel.wire.messages.alter_configs import AlterConfigsResourceResponse
from semel.wire.schema import BOOL, INT8, INT32, STRING, array, field, message, struct


@struct
class AlterableConfig:
    name: str = field(STRING)
    config_operation: int = field(INT8)
    value: str | None = field(STRING, nullable=0)


@struct
class AlterConfigsResource:
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configs: list[AlterableConfig] = field(array(AlterableConfig))


@message(versions=(0, 1), flexible_since=1)
class IncrementalAlterConfigsRequest:
    resources: list[AlterConfigsResource] = field(array(AlterConfigsResource))
    validate_only: bool = field(BOOL)


@message(versions=(0, 1), flexible_since=1)
class IncrementalAlterConfigsResponse:
    throttle_time_ms: int = field(INT32)
    responses: list[AlterConfigsResourceResponse] = field(array(AlterConfigsResourceResponse))
