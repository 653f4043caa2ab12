"""ListTransactions: the transactions of one coordinator, filtered. A duration of -1 filters nothing.

Between brokers a transaction has three more fields, with tags of Semel's own: key and value of its record in the log,
and the epoch of its coordinator.
"""

from __future__ import annotations

from semel.wire.schema import BYTES, INT16, INT32, INT64, OWN_TAGS_SINCE, STRING, array, field, message, struct


@message(versions=(0, 2), flexible_since=0)
class ListTransactionsRequest:
    state_filters: list[str] = field(array(STRING))
    producer_id_filters: list[int] = field(array(INT64))
    duration_filter: int | None = field(INT64, since=1, absent=-1)
    transactional_id_pattern: str | None = field(STRING, since=2, nullable=2, default=None)


@struct
class TransactionState:
    transactional_id: str = field(STRING)
    producer_id: int = field(INT64)
    transaction_state: str = field(STRING)
    record_key: bytes | None = field(BYTES, tag=OWN_TAGS_SINCE, nullable=0, default=None)
    record_value: bytes | None = field(BYTES, tag=OWN_TAGS_SINCE + 1, nullable=0, default=None)
    coordinator_epoch: int = field(INT32, tag=OWN_TAGS_SINCE + 2)


@message(versions=(0, 2), flexible_since=0)
class ListTransactionsResponse:
    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16)
    unknown_state_filters: list[str] = field(array(STRING))
    transaction_states: list[TransactionState] = field(array(TransactionState))
