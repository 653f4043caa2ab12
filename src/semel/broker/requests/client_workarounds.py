"""Repairs malformed requests of known clients, which Apache Kafka serves because it ignores bytes after a message.

Semel refuses requests with trailing bytes. So each such client is recognized by its request, which is corrected before
it is decoded again. No other malformed request is tolerated.
"""

from __future__ import annotations

from typing import Final

from semel.wire.apis import ApiKey

_METADATA_FLEXIBLE_SINCE: Final = 9


def repaired_body(api_key: int, version: int, body: memoryview) -> bytes | None:
    """Return the corrected body of a request that could not be decoded, or None if it is not a known case."""
    if api_key == ApiKey.METADATA and version >= _METADATA_FLEXIBLE_SINCE and bytes(body[:4]) == bytes(4):
        # librdkafka (2.15 and before), asking for all topics: the null array as four bytes instead of one.
        return bytes(body[3:])
    return None
