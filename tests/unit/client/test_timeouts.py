"""A call of a consumer that timed out leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from semel import Consumer
from semel.client.machine.connection.promise import Promise
from semel.errors import TimedOut

ORDERS = ("orders", 0)


@pytest.mark.parametrize(
    "call",
    [
        lambda consumer: consumer.end_offsets([ORDERS]),
        lambda consumer: consumer.offsets_for_times({ORDERS: 0}),
        lambda consumer: consumer.committed([ORDERS]),
    ],
)
def test_what_only_the_caller_needed_is_given_up(call: Callable[[Consumer], Awaitable[object]]) -> None:
    """Otherwise every call that timed out would be asked for again and again, until there is an answer."""

    async def scenario() -> None:
        promises: list[Promise[object]] = []
        async with Consumer(bootstrap_servers="127.0.0.1:1", group_id="billing", default_api_timeout_ms=50) as consumer:
            session = consumer._session
            wait = session._within_timeout

            async def noted(promise: Promise[object], title: str) -> object:
                promises.append(promise)
                return await wait(promise, title)

            session._within_timeout = noted  # type: ignore[assignment,method-assign]
            with pytest.raises(TimedOut, match="no answer within"):
                await call(consumer)
            assert [promise.settled for promise in promises] == [True]

    asyncio.run(scenario())
