"""The bytes of ``__transaction_state``: Kafka's key and value, each after the two bytes of its version.

Kafka can read these records, and Semel can read Kafka's. One field is our own. It is written only if Kafka's fields do
not imply its value: Kafka loses the last producer epoch in a failover, and then fences a producer that only repeats its
InitProducerId. The field has a tag far above Kafka's, and Kafka skips tags that it does not know.
"""

from __future__ import annotations

from typing import Final

from semel.wire.schema import INT8, INT16, INT32, INT64, STRING, array, field, message, struct

KEY_VERSION: Final = 0
VALUE_VERSION_MAX: Final = 1

DERIVED_EPOCH: Final = -2
"""The value of ``last_producer_epoch`` if the epoch follows from the other fields."""


@message(versions=(0, 0), flexible_since=None)
class TransactionLogKey:
    transactional_id: str = field(STRING)


@struct
class PartitionsSchema:
    topic: str = field(STRING)
    partition_ids: list[int] = field(array(INT32))


@message(versions=(0, VALUE_VERSION_MAX), flexible_since=1)
class TransactionLogValue:
    producer_id: int = field(INT64)
    previous_producer_id: int | None = field(INT64, since=1, tag=0, absent=-1)
    next_producer_id: int | None = field(INT64, since=1, tag=1, absent=-1)
    producer_epoch: int = field(INT16)
    next_producer_epoch: int = field(INT16, since=1, tag=3, default=-1)
    transaction_timeout_ms: int = field(INT32)
    transaction_status: int = field(INT8)
    transaction_partitions: list[PartitionsSchema] | None = field(array(PartitionsSchema), nullable=0, default=None)
    transaction_last_update_timestamp_ms: int = field(INT64)
    transaction_start_timestamp_ms: int | None = field(INT64, absent=-1)
    client_transaction_version: int = field(INT16, since=1, tag=2, default=0)
    last_producer_epoch: int | None = field(INT16, since=1, tag=10_000, absent=-1, default=DERIVED_EPOCH)
