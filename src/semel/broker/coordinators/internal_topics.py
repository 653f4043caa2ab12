"""The internal topics: made on first use, and never changed after that.

How many partitions one has is a setting only until it exists. After that the topic itself says so, because the
partition in which an id is kept follows from the number.
"""

from __future__ import annotations

from typing import Final

from semel.broker.config.broker_config import BrokerConfig
from semel.log.config import TOPIC_SETTINGS
from semel.metadata.controller import NewTopic
from semel.types import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC

_SEGMENT_BYTES: Final = "segment.bytes"


def brokers_needed(name: str, config: BrokerConfig) -> int:
    """How many brokers a cluster must have before the topic is made: as many as it is to have replicas. A broker
    without ZooKeeper has all the brokers there are."""
    if config.zookeeper_connect is None:
        return 1
    factors = {
        TRANSACTION_STATE_TOPIC: config.transaction_state_log_replication_factor,
        CONSUMER_OFFSETS_TOPIC: config.offsets_topic_replication_factor,
    }
    return factors[name]


def internal_topic(name: str, config: BrokerConfig) -> NewTopic:
    """The topic as it is to be made."""
    replicas = brokers_needed(name, config)
    if name == TRANSACTION_STATE_TOPIC:
        in_sync = {"min.insync.replicas": str(min(config.transaction_state_log_min_isr, replicas))}
        segment_bytes = config.transaction_state_log_segment_bytes
    else:
        in_sync = {}
        segment_bytes = config.offsets_topic_segment_bytes
    return NewTopic(
        name,
        num_partitions=partition_count(name, config),
        replication_factor=replicas,
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            **_segment_size(segment_bytes),
            **in_sync,
        },
    )


def partition_count(name: str, config: BrokerConfig) -> int:
    """How many partitions the topic gets. Of one that exists, ask the image."""
    counts = {
        TRANSACTION_STATE_TOPIC: config.transaction_state_log_num_partitions,
        CONSUMER_OFFSETS_TOPIC: config.offsets_topic_num_partitions,
    }
    return counts[name]


def _segment_size(segment_bytes: int) -> dict[str, str]:
    # These settings of the broker go lower than the topic's own does.
    rule = TOPIC_SETTINGS[_SEGMENT_BYTES].rule
    small = rule is not None and not rule.allows(segment_bytes)
    return {"internal.segment.bytes" if small else _SEGMENT_BYTES: str(segment_bytes)}
