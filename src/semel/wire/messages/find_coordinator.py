"""FindCoordinator: the broker that coordinates a group (key type 0) or a transactional id (key type 1).

From version 4 on one request can have many keys.
"""

from __future__ import annotations

from semel.wire.schema import INT8, INT16, INT32, STRING, array, field, message, struct


@message(versions=(0, 6), flexible_since=3)
class FindCoordinatorRequest:
    key: str = field(STRING, until=3)
    key_type: int = field(INT8, since=1)
    coordinator_keys: list[str] = field(array(STRING), since=4)


@struct
class Coordinator:
    key: str = field(STRING)
    node_id: int | None = field(INT32, absent=-1)
    host: str = field(STRING)
    port: int | None = field(INT32, absent=-1)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable=4)


@message(versions=(0, 6), flexible_since=3)
class FindCoordinatorResponse:
    throttle_time_ms: int = field(INT32, since=1)
    error_code: int = field(INT16, until=3)
    error_message: str | None = field(STRING, since=1, until=3, nullable=1)
    node_id: int | None = field(INT32, until=3, absent=-1)
    host: str = field(STRING, until=3)
    port: int | None = field(INT32, until=3, absent=-1)
    coordinators: list[Coordinator] = field(array(Coordinator), since=4)
