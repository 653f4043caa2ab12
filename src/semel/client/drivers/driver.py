"""The driver of a machine in an event loop: carries out its actions, passes events to it, and decides nothing.

However much happens within one turn of the loop, the machine is polled once for it. If other threads use the machine
too, there is a lock, the ``guard``, that every thread holds while it does.

The law: no caller waits for ever. An exception in a step of the driver, in the machine or below it, ends the client: it
is logged once, connections are aborted, and every call that waits fails with ``ClientFailed``. The machine is not used
for that, because it may be in any state.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import ssl
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Final, TypeVar, cast

from semel.client.drivers.process import Process
from semel.client.drivers.tokens import Tokens
from semel.client.machine.connection.actions import Connect, Disconnect, FetchToken, Machine, Send
from semel.client.machine.connection.promise import Promise
from semel.clock import NEVER, Clock
from semel.errors import AuthorizationFailed, ClientFailed, DecodeError, ErrorCode, SemelError
from semel.net.frame_receiver import FrameReceiver
from semel.net.network import Network
from semel.types import Buffer

log = logging.getLogger(__name__)

T = TypeVar("T")


class Driver:
    """Runs one machine in an event loop.

    ``turned`` is called whenever the machine may have settled something, without the guard, and before a caller that
    waits for a promise goes on, so that the caller finds everything done. ``failed`` is called once if a step raises;
    ``title`` names the client in that error. ``application_loop`` is the application's loop, if that is another one.
    """

    def __init__(
        self,
        title: str,
        machine: Machine,
        *,
        network: Network,
        clock: Clock,
        guard: AbstractContextManager[Any] | None,
        turned: Callable[[], None],
        failed: Callable[[ClientFailed], None],
        application_loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._title = title
        self._machine = machine
        self._network = network
        self._clock = clock
        self._guard = nullcontext() if guard is None else guard
        self._turned = turned
        self._failed = failed
        self._step = _Step(self)
        self._failure: Promise[Any] | None = None
        self._waiting: dict[object, Callable[[Promise[Any]], None]] = {}
        """What to call when a promise is settled, or when the driver fails before that."""
        self._loop = asyncio.get_running_loop()
        self.create_future: Callable[[], asyncio.Future[Any]] = self._loop.create_future
        self._call_soon = self._loop.call_soon if guard is None else self._loop.call_soon_threadsafe
        self._tokens = Tokens(application_loop)
        self._connecting: dict[int, asyncio.Task[None]] = {}
        """The task of each connection that waits for its broker, or for a token."""
        self._connections: dict[int, _Connection] = {}
        self._ending: list[asyncio.Task[None]] = []
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = NEVER
        self._closed = False
        self._process = Process()

    def check_process(self) -> None:
        """Raise ``StateError`` after a fork."""
        self._process.check("client")

    def wake(self) -> None:
        """Poll the machine on the next turn of the loop, because a caller has changed it. Raises after a fork."""
        self.check_process()
        if not self._scheduled and not self._closed:
            self._scheduled = True
            self._call_soon(self._turn)

    def turn(self) -> None:
        """Poll the machine now."""
        self._turn()

    async def wait(self, promise: Promise[T], *, timeout_ms: float | None = None) -> T:
        """Return the value of a promise, or raise its error. After ``timeout_ms`` raises ``TimeoutError``."""
        future = self.future_of(promise)
        async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
            return await future

    def future_of(self, promise: Promise[T]) -> asyncio.Future[T]:
        """Return a future in the loop that this is called from, which may be another one than the machine's."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def settle_there(settled: Promise[T]) -> None:
            with contextlib.suppress(RuntimeError):  # That loop is closed: no task waits there any more.
                loop.call_soon_threadsafe(settle_future, future, settled)

        self.follow(promise, partial(settle_future, future) if loop is self._loop else settle_there)
        return future

    def follow(self, promise: Promise[T], told: Callable[[Promise[T]], None]) -> None:
        """Call ``told`` with the promise when it is settled, or with a failed one if the driver fails before that."""
        self.check_process()
        waiting = object()

        def settled(outcome: Promise[T]) -> None:
            if self._waiting.pop(waiting, None) is not None:
                told(outcome)

        self._waiting[waiting] = settled
        with self._guard:
            promise.then(settled)
        if self._failure is not None:  # Perhaps just now, in another thread.
            settled(self._failure)
        self.wake()

    def fail(self, error: Exception) -> None:
        """End the client after an exception in a step. Further exceptions are logged, because the rest must be done."""
        if self._failure is not None:
            log.debug("the %s had failed already", self._title, exc_info=error)
            return
        failure = ClientFailed(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"the {self._title} failed inside, and is closed: {type(error).__name__}: {error}. It is not known whether "
            "what was under way was done",
        )
        failure.__cause__ = error
        told: Promise[Any] = Promise()
        told.fail(failure)
        self._failure = told
        self._closed = True
        log.error("the %s failed inside, and is closed", self._title, exc_info=error)
        steps: list[Callable[[], object]] = [
            partial(self._failed, failure),
            self._stop_timer,
            *(connection.close for connection in self._connections.values()),
            *(task.cancel for task in self._connecting.values()),
            self._tokens.cancel,
            *(partial(settle, told) for settle in tuple(self._waiting.values())),
        ]
        for step in steps:
            try:
                step()
            except Exception:
                log.exception("closing the %s after it had failed", self._title)

    async def close(self) -> None:
        """End every connection. The machine is not called: it knows that it is shut."""
        self._closed = True
        self._stop_timer()
        for connection in tuple(self._connections.values()):
            connection.close()
        self._connections.clear()
        tasks = [*self._connecting.values(), *self._ending]
        self._connecting.clear()
        self._tokens.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Turns

    def _poll_soon(self) -> None:
        """Poll the machine on the next turn, because of an event in this loop."""
        if not self._scheduled and not self._closed:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self, due_ms: float = 0.0) -> None:
        self._scheduled = False
        if self._failure is not None:
            return
        with self._step:
            # A timer that has fired is due, even if the clock reads a little less; otherwise it would be set again at
            # once.
            now_ms = max(self._clock.monotonic_ms(), due_ms)
            with self._guard:
                actions = self._machine.poll(now_ms)
                deadline_ms = self._machine.next_deadline_ms()
            for action in actions:
                match action:
                    case Send():
                        connection = self._connections.get(action.connection)
                        if connection is not None:
                            connection.send(action.parts)
                    case Connect():
                        task = self._loop.create_task(self._connect(action))
                        self._connecting[action.connection] = task
                    case Disconnect():
                        self._disconnect(action.connection)
                    case FetchToken():
                        task = self._loop.create_task(self._fetch_token(action))
                        self._connecting[action.connection] = task
            if not self._closed:
                self._set_timer(deadline_ms, now_ms)
            self._turned()

    def _set_timer(self, deadline_ms: float, now_ms: float) -> None:
        if deadline_ms == self._timer_ms:
            return
        self._stop_timer()
        if deadline_ms != NEVER:
            delay_s = max(0.0, deadline_ms - now_ms) / 1000
            self._timer = self._loop.call_later(delay_s, self._timer_fired, deadline_ms)
        self._timer_ms = deadline_ms

    def _stop_timer(self) -> None:
        timer, self._timer, self._timer_ms = self._timer, None, NEVER
        if timer is not None:
            timer.cancel()

    def _timer_fired(self, due_ms: float) -> None:
        self._timer, self._timer_ms = None, NEVER
        self._turn(due_ms)

    # Connections

    async def _connect(self, action: Connect) -> None:
        with self._step:
            number = action.connection
            try:
                _, protocol = await self._network.connect(action.host, action.port, lambda: _Connection(self, number))
            except _UNREACHABLE as error:
                self._connecting.pop(number, None)
                if isinstance(error, ssl.SSLCertVerificationError):
                    with self._guard:
                        self._machine.refused(
                            f"{action.host}:{action.port}: {error.verify_message}. Look at ssl.truststore"
                        )
                self._lost(number, str(error) or type(error).__name__)
                return
            connection = cast(_Connection, protocol)
            if self._connecting.pop(number, None) is None or connection.is_lost:
                connection.close()  # Cancelled meanwhile, or lost already.
                self._lost(number, "the connection was closed at once")
                return
            self._connections[number] = connection
            with self._guard:
                self._machine.connected(number, self._clock.monotonic_ms())
            self._poll_soon()

    async def _fetch_token(self, action: FetchToken) -> None:
        with self._step:
            number = action.connection
            try:
                token = await self._tokens.fetch(action.provider)
            except Exception as error:
                reason = str(error) if isinstance(error, SemelError) else f"no token: {type(error).__name__}: {error}"
                self._connecting.pop(number, None)
                with self._guard:
                    if isinstance(error, AuthorizationFailed):
                        self._machine.refused(error.message)
                    self._machine.token_failed(number, reason, self._clock.monotonic_ms())
            else:
                self._connecting.pop(number, None)
                with self._guard:
                    self._machine.token_received(number, token, self._clock.monotonic_ms())
            self._turned()
            self._poll_soon()

    def _disconnect(self, number: int) -> None:
        connection = self._connections.pop(number, None)
        if connection is not None:
            connection.close()
        task = self._connecting.pop(number, None)
        if task is not None:
            task.cancel()
            self._ending = [*(ending for ending in self._ending if not ending.done()), task]

    def _received(self, number: int, frame: Buffer) -> None:
        with self._guard:
            self._machine.received(number, frame, self._clock.monotonic_ms())
        self._turned()
        self._poll_soon()

    def _lost(self, number: int, reason: str) -> None:
        self._connections.pop(number, None)
        if self._failure is not None:
            return
        with self._guard:
            self._machine.disconnected(number, reason, self._clock.monotonic_ms())
        self._turned()
        self._poll_soon()


# Errors of the network; UnicodeError and OverflowError come from names and ports that no system accepts.
_UNREACHABLE: Final = (OSError, UnicodeError, OverflowError)


class _Step:
    """A context in which an exception fails the driver, and does not reach the event loop, which is the caller."""

    __slots__ = ("_driver",)

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self._driver.fail(error)
        return True


def settle_future(future: asyncio.Future[T] | concurrent.futures.Future[T], promise: Promise[T]) -> None:
    """Set the outcome of a promise in a future, unless the future was cancelled."""
    if future.done():
        return
    if promise.error is None:
        future.set_result(promise.value)
    else:
        future.set_exception(promise.error)


class _Connection(asyncio.BufferedProtocol):
    def __init__(self, driver: Driver, number: int) -> None:
        self._driver = driver
        self._number = number
        self._receiver = FrameReceiver()
        self._transport: asyncio.Transport | None = None
        self._closing = False
        self.is_lost = False

    def send(self, parts: list[Buffer]) -> None:
        # A transport that is closing calls ``connection_lost`` next.
        if self._transport is not None and not self._closing and not self._transport.is_closing():
            self._transport.writelines(parts)

    def close(self) -> None:
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        with self._driver._step:
            return self._receiver.buffer()
        return memoryview(bytearray(sizehint if sizehint > 0 else 1))  # The transport is aborted.

    def buffer_updated(self, nbytes: int) -> None:
        with self._driver._step:
            try:
                for frame in self._receiver.received(nbytes):
                    if self._closing:
                        return
                    self._driver._received(self._number, frame)
            except DecodeError as error:
                self._over(str(error))
                self.close()

    def eof_received(self) -> None:
        """Return ``None``, so that the transport closes: the broker sends nothing more."""

    def connection_lost(self, error: Exception | None) -> None:
        with self._driver._step:
            self._over(str(error) if error is not None else "the broker closed the connection")

    def _over(self, reason: str) -> None:
        if not self.is_lost:
            self.is_lost = True
            if not self._closing and self._number in self._driver._connections:
                self._driver._lost(self._number, reason)
