"""The session with a real ZooKeeper, as far as it can be seen without one."""

from __future__ import annotations

import asyncio

from semel.metadata.zookeeper.kazoo_session import KazooSession


def test_after_a_long_outage_zookeeper_is_looked_for_every_few_seconds() -> None:
    """kazoo's default doubles its pauses up to an hour."""

    async def pauses() -> list[float]:
        retry = KazooSession("127.0.0.1:1", timeout_s=1.0)._client._conn_retry.copy()
        found: list[float] = []
        retry.sleep_func = found.append
        retry.interrupt = None

        def fail() -> None:
            if len(found) < 50:
                raise retry.retry_exceptions[0]

        retry(fail)
        return found

    found = asyncio.run(pauses())
    assert len(found) == 50
    assert max(found) <= 4.0
