"""Tokens are fetched off the loop: one call for all that wait, in a thread or in the application's loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable

import pytest

from semel.client.drivers.tokens import Tokens
from semel.security.sasl.client import SaslError
from tools.patience import PATIENCE_S


def test_a_function_that_blocks_is_called_once_for_all_and_the_loop_goes_on() -> None:
    goes_on = threading.Event()
    threads: list[threading.Thread] = []

    def provider() -> str:
        threads.append(threading.current_thread())
        assert goes_on.wait(PATIENCE_S)
        return "token"

    async def clients() -> list[str]:
        tokens = Tokens()
        waiting = [asyncio.create_task(tokens.fetch(provider)) for _ in range(3)]
        await asyncio.sleep(0)
        goes_on.set()
        return await asyncio.gather(*waiting)

    assert asyncio.run(clients()) == ["token"] * 3
    (thread,) = threads
    assert thread is not threading.main_thread()
    assert thread.daemon, "a program does not wait for it when it ends"


def test_a_connection_that_is_given_up_leaves_the_call_to_the_others() -> None:
    goes_on = threading.Event()
    calls: list[None] = []

    def provider() -> str:
        calls.append(None)
        assert goes_on.wait(PATIENCE_S)
        return "token"

    async def clients() -> str:
        tokens = Tokens()
        given_up = asyncio.create_task(tokens.fetch(provider))
        await asyncio.sleep(0)
        given_up.cancel()
        await asyncio.gather(given_up, return_exceptions=True)
        waiting = asyncio.create_task(tokens.fetch(provider))
        await asyncio.sleep(0)
        goes_on.set()
        return await waiting

    assert asyncio.run(clients()) == "token"
    assert len(calls) == 1


def test_each_later_call_is_a_new_one() -> None:
    issued = iter(["first", "second"])

    async def clients() -> list[str]:
        tokens = Tokens()
        return [await tokens.fetch(lambda: next(issued)) for _ in range(2)]

    assert asyncio.run(clients()) == ["first", "second"]


@pytest.mark.parametrize("raised", [OSError("away"), StopIteration(), KeyError("token")])
def test_what_a_provider_raises_is_told(raised: Exception) -> None:
    def provider() -> str:
        raise raised

    async def provider_async() -> str:
        raise raised

    for one in (provider, provider_async):
        with pytest.raises((type(raised), RuntimeError)):
            asyncio.run(Tokens().fetch(one))


@pytest.mark.parametrize("token", [None, b"bytes", "", "two\nlines"])
def test_what_is_no_token_is_refused_and_not_shown(token: object) -> None:
    with pytest.raises(SaslError, match="a token ") as raised:
        asyncio.run(Tokens().fetch(lambda: token))  # type: ignore[arg-type, return-value]
    assert "two" not in str(raised.value)


def test_a_function_may_return_what_is_awaited() -> None:
    async def issued() -> str:
        return "token"

    def provider() -> Awaitable[str]:
        return issued()

    assert asyncio.run(Tokens().fetch(provider)) == "token"
