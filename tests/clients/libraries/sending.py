"""How a library is asked to send records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

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
