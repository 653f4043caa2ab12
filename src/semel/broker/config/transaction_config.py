"""The settings of producers and transactions."""

from __future__ import annotations

from dataclasses import dataclass

from semel.log.config import DAY_MS, HOUR_MS, MINUTE_MS
from semel.settings import AtLeast, OneOf, SettingType, Update, declare

INT, SHORT = SettingType.INT, SettingType.SHORT


@dataclass(frozen=True)
class TransactionConfig:
    """A part of ``BrokerConfig``."""

    producer_id_expiration_ms: int = declare(
        "producer.id.expiration.ms",
        INT,
        DAY_MS,
        "After this time without a write a partition forgets a producer, unless it has a transaction open.",
        rule=AtLeast(1),
        update=Update.CLUSTER_WIDE,
    )
    producer_id_expiration_check_interval_ms: int = declare(
        "producer.id.expiration.check.interval.ms",
        INT,
        10 * MINUTE_MS,
        "How often partitions look for producers to forget.",
        rule=AtLeast(1),
    )
    transaction_version: int = declare(
        "transaction.version",
        SHORT,
        2,
        "The protocol of transactions that clients are offered: 2, in which every transaction has its own epoch, or 1 "
        "or 0 to keep them to the older one. Semel's own: in Kafka it is a feature of the cluster and no setting.",
        rule=OneOf((0, 1, 2)),
    )
    transaction_max_timeout_ms: int = declare(
        "transaction.max.timeout.ms",
        INT,
        15 * MINUTE_MS,
        "The longest transaction timeout that a producer may ask for.",
        rule=AtLeast(1),
    )
    transactional_id_expiration_ms: int = declare(
        "transactional.id.expiration.ms",
        INT,
        7 * DAY_MS,
        "After this time without a transaction a transactional id is forgotten.",
        rule=AtLeast(1),
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = declare(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        INT,
        10_000,
        "How often it is checked which transactions have timed out.",
        rule=AtLeast(1),
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = declare(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        INT,
        HOUR_MS,
        "How often it is checked which transactional ids have expired.",
        rule=AtLeast(1),
    )
    transaction_state_log_num_partitions: int = declare(
        "transaction.state.log.num.partitions",
        INT,
        50,
        "The partitions of __transaction_state. It must not change once the topic exists.",
        rule=AtLeast(1),
    )
    transaction_state_log_replication_factor: int = declare(
        "transaction.state.log.replication.factor",
        SHORT,
        3,
        "The replicas of __transaction_state. A cluster makes it when so many brokers are there; one node makes "
        "it at once, with one.",
        rule=AtLeast(1),
    )
    transaction_state_log_min_isr: int = declare(
        "transaction.state.log.min.isr",
        INT,
        2,
        "min.insync.replicas of __transaction_state; never more than it has replicas.",
        rule=AtLeast(1),
    )
    transaction_state_log_segment_bytes: int = declare(
        "transaction.state.log.segment.bytes",
        INT,
        100 * 2**20,
        "segment.bytes of __transaction_state.",
        rule=AtLeast(1),
    )
