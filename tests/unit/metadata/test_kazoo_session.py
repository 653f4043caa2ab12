"""The session with a real ZooKeeper, as far as it can be seen without one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from kazoo.exceptions import NoAuthError

from semel.errors import StorageError
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


class Refused:
    """kazoo's future for a request that the server has refused."""

    exception = NoAuthError()

    def rawlink(self, settled: Callable[[Any], None]) -> None:
        settled(self)


def test_a_refusal_that_nothing_expects_is_an_error_of_the_store() -> None:
    """A broker that joins, elects or changes in-sync sets tries again after such an error, and after no other."""

    async def read() -> None:
        session = KazooSession("127.0.0.1:1", timeout_s=1.0)
        session._client.get_async = lambda path, watch: Refused()
        await session.get("/sequence")

    with pytest.raises(StorageError, match="NoAuthError"):
        asyncio.run(read())
