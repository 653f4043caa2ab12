"""AddOffsetsToTxn: announces that a transaction will commit offsets of a group."""

from __future__ import annotations

from semel.wire.schema import INT16, INT32, INT64, STRING, field, message


@message(versions=(0, 4), flexible_since=3)
class AddOffsetsToTxnRequest:
    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    group_id: str = field(STRING)


@message(versions=(0, 4), flexible_since=3)
class AddOffsetsToTxnResponse:
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
