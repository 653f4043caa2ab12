"""InitProducerId: a producer id and epoch, and for a transactional id the fencing of its previous producer.

From version 3 on a producer that already has an id sends it with its epoch, to get the next epoch.
"""

from __future__ import annotations

from semel.wire.schema import INT16, INT32, INT64, STRING, field, message


@message(versions=(0, 5), flexible_since=2)
class InitProducerIdRequest:
    transactional_id: str | None = field(STRING, nullable=0)
    transaction_timeout_ms: int = field(INT32)
    producer_id: int | None = field(INT64, since=3, absent=-1)
    producer_epoch: int | None = field(INT16, since=3, absent=-1)


@message(versions=(0, 5), flexible_since=2)
class InitProducerIdResponse:
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    producer_id: int | None = field(INT64, absent=-1)
    producer_epoch: int | None = field(INT16, absent=-1)
