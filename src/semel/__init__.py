"""Semel: exactly-once event streaming for Python and Spark.

    from semel import Producer, Consumer, Admin

These classes are for asyncio; ``semel.blocking`` has the same classes for threads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from semel.on_demand import on_demand

if TYPE_CHECKING:
    from semel.client.admin.admin import Admin as Admin
    from semel.client.consumer import Consumer as Consumer
    from semel.client.deserializers import DeserializationError as DeserializationError
    from semel.client.producer import Producer as Producer
    from semel.client.rebalance_listener import RebalanceListener as RebalanceListener
    from semel.client.values import BulkMetadata as BulkMetadata
    from semel.client.values import ConsumerRecord as ConsumerRecord
    from semel.client.values import GroupMetadata as GroupMetadata
    from semel.client.values import OffsetAndMetadata as OffsetAndMetadata
    from semel.client.values import ProducerRecord as ProducerRecord
    from semel.client.values import RecordMetadata as RecordMetadata
    from semel.types import TopicPartition as TopicPartition

__version__ = "0.2.0"

__all__ = [
    "Admin",
    "BulkMetadata",
    "Consumer",
    "ConsumerRecord",
    "DeserializationError",
    "GroupMetadata",
    "OffsetAndMetadata",
    "Producer",
    "ProducerRecord",
    "RebalanceListener",
    "RecordMetadata",
    "TopicPartition",
    "__version__",
]

_HOMES = {
    "Admin": "semel.client.admin.admin",
    "BulkMetadata": "semel.client.values",
    "Consumer": "semel.client.consumer",
    "ConsumerRecord": "semel.client.values",
    "DeserializationError": "semel.client.deserializers",
    "GroupMetadata": "semel.client.values",
    "OffsetAndMetadata": "semel.client.values",
    "Producer": "semel.client.producer",
    "ProducerRecord": "semel.client.values",
    "RebalanceListener": "semel.client.rebalance_listener",
    "RecordMetadata": "semel.client.values",
    "TopicPartition": "semel.types",
}

# Imported on demand: a broker uses no client, and should start without importing one.
__getattr__, __dir__ = on_demand(__name__, _HOMES)
