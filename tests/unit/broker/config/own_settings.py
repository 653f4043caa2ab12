from __future__ import annotations

# The broker settings that Apache Kafka does not have.
OUR_OWN = {
    "connections.max.stalled.ms",
    "flush",
    "group.version",
    "max.partitions",
    "queued.max.response.bytes",
    "transaction.version",
}
