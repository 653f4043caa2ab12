"""DescribeClientQuotas: client quotas by user, client id and IP address.

Match types: 0 exactly this name, 1 the default entity, 2 any specified entity.
"""

from __future__ import annotations

from semel.wire.schema import BOOL, FLOAT64, INT8, INT16, INT32, STRING, array, field, message, struct


@struct
class ComponentData:
    entity_type: str = field(STRING)
    match_type: int = field(INT8)
    match: str | None = field(STRING, nullable=0)


@message(versions=(0, 1), flexible_since=1)
class DescribeClientQuotasRequest:
    components: list[ComponentData] = field(array(ComponentData))
    strict: bool = field(BOOL)


@struct
class EntityData:
    entity_type: str = field(STRING)
    entity_name: str | None = field(STRING, nullable=0)


@struct
class ValueData:
    key: str = field(STRING)
    value: float = field(FLOAT64)


@struct
class EntryData:
    entity: list[EntityData] = field(array(EntityData))
    values: list[ValueData] = field(array(ValueData))


@message(versions=(0, 1), flexible_since=1)
class DescribeClientQuotasResponse:
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)
    entries: list[EntryData] | None = field(array(EntryData), nullable=0)
