"""The internal topics: created on first use, and their number of partitions never changed after that.

The settings for the number of partitions count only until the topic exists. After that the number in the image counts,
because it determines the partition of each id.
"""

from __future__ import annotations

from typing import Final

from semel.broker.config.broker_config import BrokerConfig
from semel.log.config import TOPIC_SETTINGS
from semel.metadata.controller import NewTopic
from semel.types import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC

_SEGMENT_BYTES: Final = "segment.bytes"


def brokers_needed(name: str, config: BrokerConfig) -> int:
    """Return how many brokers the cluster must have before the topic is created: its replication factor; without
    ZooKeeper it is 1."""
    if config.zookeeper_connect is None:
        return 1
    factors = {
        TRANSACTION_STATE_TOPIC: config.transaction_state_log_replication_factor,
        CONSUMER_OFFSETS_TOPIC: config.offsets_topic_replication_factor,
    }
    return factors[name]


def internal_topic(name: str, config: BrokerConfig) -> NewTopic:
    """Return the internal topic to create, with its settings."""
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
    """Return the number of partitions for a topic that does not exist yet. For one that exists, the image has it."""
    counts = {
        TRANSACTION_STATE_TOPIC: config.transaction_state_log_num_partitions,
        CONSUMER_OFFSETS_TOPIC: config.offsets_topic_num_partitions,
    }
    return counts[name]


def _segment_size(segment_bytes: int) -> dict[str, str]:
    # The broker's settings allow smaller segments than the topic's segment.bytes does.
    rule = TOPIC_SETTINGS[_SEGMENT_BYTES].rule
    small = rule is not None and not rule.allows(segment_bytes)
    return {"internal.segment.bytes" if small else _SEGMENT_BYTES: str(segment_bytes)}
