"""OAuth tokens for the connections of one client, fetched without blocking its loop.

A provider that is a plain function may block, so it is called in a thread; an async one is awaited in the application's
loop, to which the objects that it uses belong. All connections that wait share one call, so a provider is never called
twice at once, and one that hangs keeps one thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import Awaitable
from functools import partial
from typing import Any

from semel.client.security.config import TokenProvider
from semel.client.security.sasl import check_token


class Tokens:
    """Calls a token provider. ``application_loop`` is the application's loop, if the driver has another one."""

    def __init__(self, application_loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._application_loop = application_loop
        self._call: asyncio.Task[str] | None = None

    async def fetch(self, provider: TokenProvider) -> str:
        """Return a token. Raises what the provider raises, and ``SaslError`` if it returned no valid token."""
        if self._call is None or self._call.done():
            self._call = asyncio.create_task(self._called(provider))
            self._call.add_done_callback(_outcome_was_seen)
        # If one connection ends, the call goes on: others wait for it.
        return await asyncio.shield(self._call)

    def cancel(self) -> None:
        if self._call is not None:
            self._call.cancel()

    async def _called(self, provider: TokenProvider) -> str:
        token: Any
        if inspect.iscoroutinefunction(provider):
            token = provider()
        else:
            token, error = await _in_thread(provider)
            if error is not None:
                raise error
        if inspect.isawaitable(token):
            token = await self._awaited(token)
        check_token(token)
        assert isinstance(token, str)
        return token

    async def _awaited(self, token: Awaitable[Any]) -> Any:
        loop = self._application_loop
        if loop is None or loop is asyncio.get_running_loop():
            return await token
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_as_coroutine(token), loop))


async def _as_coroutine(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _in_thread(provider: TokenProvider) -> asyncio.Future[tuple[Any, Exception | None]]:
    """Call a provider in a daemon thread, which delays no exit. Returns a future of its result and its exception."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[tuple[Any, Exception | None]] = loop.create_future()

    def run() -> None:
        outcome: tuple[Any, Exception | None]
        try:
            outcome = (provider(), None)
        except Exception as error:
            outcome = (None, error)
        with contextlib.suppress(RuntimeError):  # The loop is closed: no connection waits any more.
            loop.call_soon_threadsafe(partial(_settle, future, outcome))

    threading.Thread(target=run, name="semel-token", daemon=True).start()
    return future


def _settle(future: asyncio.Future[Any], outcome: tuple[Any, Exception | None]) -> None:
    if not future.done():
        future.set_result(outcome)


def _outcome_was_seen(call: asyncio.Task[str]) -> None:
    """Read the call's exception: asyncio would complain if every connection that waited for it had ended."""
    if not call.cancelled():
        call.exception()
