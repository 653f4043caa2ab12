"""How a library is asked to send records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

Codec = Literal["none", "gzip", "snappy", "lz4", "zstd"]
CODECS: tuple[Codec, ...] = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, slots=True)
class Sending:
    """``in_batches_of`` makes the client send that many records per request, with several requests under way."""

    codec: Codec = "none"
    acks: int = -1
    idempotent: bool = False
    in_batches_of: int | None = None
    request_timeout_ms: int = 30_000


PLAIN: Final = Sending()

RECORD_BYTES_MAX: Final = 20_000_000


def python_producer_settings(bootstrap_servers: str, how: Sending) -> dict[str, Any]:
    """The settings that aiokafka and kafka-python name alike."""
    return {
        "bootstrap_servers": bootstrap_servers,
        "compression_type": None if how.codec == "none" else how.codec,
        "acks": "all" if how.acks == -1 else how.acks,
        "enable_idempotence": how.idempotent,
        "max_request_size": RECORD_BYTES_MAX,
        "linger_ms": 20 if how.in_batches_of is None else 0,
        "request_timeout_ms": how.request_timeout_ms,
        "retry_backoff_ms": 50,
    }


def python_consumer_settings(bootstrap_servers: str, fetch_max_wait_ms: int) -> dict[str, Any]:
    return {
        "bootstrap_servers": bootstrap_servers,
        "group_id": None,
        "fetch_max_wait_ms": fetch_max_wait_ms,
        "max_partition_fetch_bytes": RECORD_BYTES_MAX,
        "request_timeout_ms": fetch_max_wait_ms + 60_000,
    }
