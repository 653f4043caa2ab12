"""The settings of a transaction shard, with Kafka's defaults."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransactionSettings:
    max_timeout_ms: int = 900_000
    """``transaction.max.timeout.ms``: InitProducerId with a longer one is refused."""

    transactional_id_expiration_ms: int = 7 * 24 * 3600 * 1000
    """``transactional.id.expiration.ms``: an idle transactional id is removed after this time."""

    open_max: int = 10_000
    """How many transactions of one partition of ``__transaction_state`` may be open. A further one is refused with
    CONCURRENT_TRANSACTIONS, and its producer retries."""

    transaction_version: int = 2
    """The cluster's ``transaction.version``. It decides how the coordinator itself ends a transaction (V2 with the
    bumped epoch in the record) and the version of the records it writes."""
