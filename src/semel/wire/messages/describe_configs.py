"""DescribeConfigs: the settings of resources, such as topics (type 2) and brokers (4), and the sources of values."""

from __future__ import annotations

from semel.wire.schema import BOOL, INT8, INT16, INT32, STRING, array, field, message, struct


@struct
class DescribeConfigsResource:
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configuration_keys: list[str] | None = field(array(STRING), nullable=0)


@message(versions=(1, 4), flexible_since=4)
class DescribeConfigsRequest:
    resources: list[DescribeConfigsResource] = field(array(DescribeConfigsResource))
    include_synonyms: bool = field(BOOL)
    include_documentation: bool = field(BOOL, since=3)


@struct
class DescribeConfigsSynonym:
    name: str = field(STRING)
    value: str | None = field(STRING, nullable=0)
    source: int = field(INT8)


@struct
class DescribeConfigsResourceResult:
    name: str = field(STRING)
    value: str | None = field(STRING, nullable=0)
    read_only: bool = field(BOOL)
    config_source: int = field(INT8, default=-1)
    is_sensitive: bool = field(BOOL)
    synonyms: list[DescribeConfigsSynonym] = field(array(DescribeConfigsSynonym))
    config_type: int = field(INT8, since=3)
    documentation: str | None = field(STRING, since=3, nullable=0)


@struct
class DescribeConfigsResult:
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)
    resource_type: int = field(INT8)
    resource_name: str = field(STRING)
    configs: list[DescribeConfigsResourceResult] = field(array(DescribeConfigsResourceResult))


@message(versions=(1, 4), flexible_since=4)
class DescribeConfigsResponse:
    throttle_time_ms: int = field(INT32)
    results: list[DescribeConfigsResult] = field(array(DescribeConfigsResult))
