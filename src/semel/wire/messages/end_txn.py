"""EndTxn: commit or abort a transaction.

Version 5 is transactions V2: every end bumps the producer epoch, and the response has the producer id and epoch for the
next transaction.
"""

from __future__ import annotations

from semel.wire.schema import BOOL, INT16, INT32, INT64, STRING, field, message


@message(versions=(0, 5), flexible_since=3)
class EndTxnRequest:
    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    producer_epoch: int = field(INT16)
    committed: bool = field(BOOL)


@message(versions=(0, 5), flexible_since=3)
class EndTxnResponse:
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    producer_id: int | None = field(INT64, since=5, absent=-1)
    producer_epoch: int | None = field(INT16, since=5, absent=-1)
