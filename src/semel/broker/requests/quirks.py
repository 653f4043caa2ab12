"""Requests that real clients get wrong and Apache Kafka serves nevertheless, because it ignores what trails a message.

Here every byte of a request must mean something, so each such client is known by what it sends, and its request is put
right before it is decoded a second time. Nothing else is tolerated.
"""

from __future__ import annotations

from typing import Final

from semel.wire.apis import ApiKey

_METADATA_FLEXIBLE_SINCE: Final = 9


def repaired(api_key: int, version: int, body: memoryview) -> bytes | None:
    """What the client meant by a body that could not be decoded, or None if that is not known."""
    if api_key == ApiKey.METADATA and version >= _METADATA_FLEXIBLE_SINCE and bytes(body[:4]) == bytes(4):
        # librdkafka (2.15 and before), asking for all topics: the null array as four bytes instead of one.
        return bytes(body[3:])
    return None
