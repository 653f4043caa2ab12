"""Leaving a group from both kinds of consumer."""

from __future__ import annotations

import asyncio
import time

import semel
import semel.blocking
from semel.client.group_session import GroupSession
from semel.client.machine.connection.promise import Promise

TIMEOUT_MS = 7_000_000


class NeverLeft(GroupSession):
    """A session whose group is never left. It notes how long the consumer would have waited, and ends the wait."""

    def __init__(self) -> None:
        self.timeouts_ms: list[float] = []

    def begin_leaving(self, reason: str) -> Promise[None]:
        return Promise()

    def due(self) -> None:
        return None

    async def wait(self, expires_ms: float, until: Promise[None] | None = None) -> bool:
        self.timeouts_ms.append(expires_ms - time.monotonic() * 1000)
        return False


def test_unsubscribe_waits_for_the_default_api_timeout() -> None:
    session = NeverLeft()

    async def unsubscribe() -> None:
        async with semel.Consumer(
            bootstrap_servers="localhost:1", group_id="billing", default_api_timeout_ms=TIMEOUT_MS
        ) as consumer:
            usual, consumer._group_session = consumer._group_session, session
            await consumer.unsubscribe()
            consumer._group_session = usual

    asyncio.run(unsubscribe())
    assert [TIMEOUT_MS // 2 < timeout_ms <= TIMEOUT_MS for timeout_ms in session.timeouts_ms] == [True]


def test_unsubscribe_of_a_blocking_consumer_waits_as_long() -> None:
    session = NeverLeft()
    with semel.blocking.Consumer(
        bootstrap_servers="localhost:1", group_id="billing", default_api_timeout_ms=TIMEOUT_MS
    ) as consumer:
        usual, consumer._group_session = consumer._group_session, session
        consumer.unsubscribe()
        consumer._group_session = usual
    assert [TIMEOUT_MS // 2 < timeout_ms <= TIMEOUT_MS for timeout_ms in session.timeouts_ms] == [True]
