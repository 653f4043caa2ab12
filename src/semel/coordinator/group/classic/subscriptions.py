"""What consumers of the classic protocol say they read.

To the coordinator it is bytes that clients send each other, and it need not understand them. It looks all the same: so
offsets of a topic that nobody reads any more can go, and a static member that comes back with other topics is noticed.
"""

from __future__ import annotations

from collections.abc import Iterable

from semel.errors import DecodeError
from semel.wire.messages.consumer_protocol import decode_subscription


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all of them; ``None`` if one cannot be read, since then any topic may be meant."""
    topics: set[str] = set()
    for data in subscriptions:
        try:
            topics.update(decode_subscription(data).topics)
        except DecodeError:
            return None
    return frozenset(topics)
