"""The settings of connections and requests."""

from __future__ import annotations

from dataclasses import dataclass

from semel.log.config import MINUTE_MS
from semel.settings import AtLeast, SettingType, Update, declare

INT, LONG = SettingType.INT, SettingType.LONG


@dataclass(frozen=True)
class ConnectionConfig:
    """A part of ``BrokerConfig``."""

    socket_request_max_bytes: int = declare(
        "socket.request.max.bytes", INT, 100 * 2**20, "The largest request that is read.", rule=AtLeast(1)
    )
    connections_max_idle_ms: int = declare(
        "connections.max.idle.ms", LONG, 10 * MINUTE_MS, "After this time without a request a connection is closed."
    )
    connections_max_stalled_ms: int = declare(
        "connections.max.stalled.ms",
        LONG,
        30_000,
        "After this time a connection is closed whose client reads nothing of a large answer, or sends nothing of a "
        "request that it began. After 150 ms and one second, while other requests wait for that memory. Semel's own.",
        rule=AtLeast(1),
    )
    max_connections: int = declare(
        "max.connections",
        INT,
        1000,
        "How many connections may be open at once. Kafka sets no limit; here every one holds memory and a descriptor.",
        rule=AtLeast(0),
        update=Update.CLUSTER_WIDE,
    )
    max_connections_per_ip: int = declare(
        "max.connections.per.ip",
        INT,
        500,
        "How many of them may come from one address, so that none can take all. Kafka sets no limit.",
        rule=AtLeast(0),
        update=Update.CLUSTER_WIDE,
    )
    max_connection_creation_rate: int = declare(
        "max.connection.creation.rate",
        INT,
        200,
        "How many connections may be made in a second, over ten seconds: by all clients together, and half as many by "
        "one address. Further ones wait for up to five seconds, or are closed. Kafka sets no limit.",
        rule=AtLeast(1),
        update=Update.CLUSTER_WIDE,
    )
    queued_max_request_bytes: int = declare(
        "queued.max.request.bytes",
        LONG,
        128 * 2**20,
        "How many bytes of large requests may be arriving before nothing more of such requests is read. Kafka sets no "
        "limit (-1).",
        rule=AtLeast(1),
    )
    queued_max_response_bytes: int = declare(
        "queued.max.response.bytes",
        LONG,
        128 * 2**20,
        "How many bytes of answers may wait for clients to read them, over all connections, before requests with "
        "large answers wait. All answers to Fetch together may have three quarters of it, and one of them a sixteenth "
        "of what is left of that. Semel's own.",
        rule=AtLeast(1),
    )
    fetch_max_bytes: int = declare(
        "fetch.max.bytes",
        INT,
        55 * 2**20,
        "The most record bytes in one answer to a consumer's Fetch; a first batch that is larger is still sent whole.",
        rule=AtLeast(1024),
    )
    max_incremental_fetch_session_cache_slots: int = declare(
        "max.incremental.fetch.session.cache.slots",
        INT,
        1000,
        "How many incremental fetch sessions of consumers are remembered. Those of followers are not counted.",
        rule=AtLeast(0),
    )
