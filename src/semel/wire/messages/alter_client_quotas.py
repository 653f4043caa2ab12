"""AlterClientQuotas: set or remove client quotas."""

from __future__ import annotations

from semel.wire.schema import BOOL, FLOAT64, INT16, INT32, STRING, array, field, message, struct


@struct
class EntityData:
    entity_type: str = field(STRING)
    entity_name: str | None = field(STRING, nullable=0)


@struct
class OpData:
    key: str = field(STRING)
    value: float = field(FLOAT64)
    remove: bool = field(BOOL)


@struct
class EntryData:
    entity: list[EntityData] = field(array(EntityData))
    ops: list[OpData] = field(array(OpData))


@message(versions=(0, 1), flexible_since=1)
class AlterClientQuotasRequest:
    entries: list[EntryData] = field(array(EntryData))
    validate_only: bool = field(BOOL)


@struct
class EntryDataResponse:
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=0)
    entity: list[EntityData] = field(array(EntityData))


@message(versions=(0, 1), flexible_since=1)
class AlterClientQuotasResponse:
    throttle_time_ms: int = field(INT32)
    entries: list[EntryDataResponse] = field(array(EntryDataResponse))
