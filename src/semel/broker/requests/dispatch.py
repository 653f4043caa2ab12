"""Dispatches requests: decodes a frame, calls the handler of its API, and makes sure of exactly one response.

The law: an error in one request affects only its own connection. A request that cannot be decoded, or whose API or
version is not served, closes the connection, as in Apache Kafka; only an unknown version of ApiVersions gets a
response, so that a newer client can use an older version. If a handler fails unexpectedly, this is logged, and the
client gets the API's generic error, or its connection is closed if the API has none. The response to a Produce is never
UNKNOWN_SERVER_ERROR, because clients then send the records a second time under a new epoch.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final

from semel.broker.metrics.metrics import Histogram
from semel.broker.network.connection import Connection
from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.requests.large_requests import LargeRequests, at_once_bytes
from semel.broker.requests.routes import CACHED, LARGE_ANSWERS, SERVED, access_of, handler_of
from semel.broker.turns import SHARE_MS, TURN_MS_MAX
from semel.errors import DecodeError, ErrorCode, KafkaError, StorageError
from semel.wire.apis import APIS, Api, ApiKey
from semel.wire.codec import request_decoder
from semel.wire.framing import RequestHeader, decode_request_header
from semel.wire.refusal import whole_refusal

if TYPE_CHECKING:  # Imported with the first request.
    from semel.broker.produce.produce_operation import ProduceOperation
    from semel.broker.quotas.client_quotas import ClientLimits
    from semel.broker.security.audit import Audit

logger = logging.getLogger("semel.broker")

_PRODUCE: Final = int(ApiKey.PRODUCE)
# Smaller than any request that holds a record.
_PRODUCE_BYTES_MIN: Final = 80


class Dispatcher:
    """Dispatches the requests of one listener, which serves the APIs ``served``."""

    def __init__(self, node: Node, *, served: Sequence[ApiKey] = SERVED, for_brokers: bool = False) -> None:
        self._node = node
        self._served: Final = frozenset(served)
        self._for_brokers = for_brokers
        self._routes: dict[int, _Route] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._large = LargeRequests(node.turns)
        self._parse_in_place: Callable[[Connection, memoryview], ProduceOperation | None] = self._load_in_place_parser

    def request(self, connection: Connection, frame: memoryview) -> None:
        """Serve one request. Raises only ``DecodeError``, if the connection must be closed because of it."""
        quotas = self._node.quotas
        if len(frame) > _PRODUCE_BYTES_MIN and frame[1] == _PRODUCE and not self._for_brokers and quotas is None:
            try:
                produce = self._parse_in_place(connection, frame)
                if produce is not None:
                    produce.serve()
                    return
            except DecodeError:
                raise
            except Exception:
                self._node.metrics.failed.value += 1
                logger.exception("Produce from %s failed", connection.host)
                connection.close()
                return
        header, position = decode_request_header(frame)
        api_key, version, correlation_id, client_id = header
        route = self._routes.get(api_key) or self._load(api_key)
        if route is None or not route.api.min_version <= version <= route.api.max_version:
            self._unsupported(connection, header)
            return
        request = Request(connection, route.api, version, correlation_id, client_id, route.time)
        request.is_from_broker = self._for_brokers
        request.in_slices = route.answers_in_slices
        began_ms = 0.0
        if quotas is not None and not self._for_brokers:
            began_ms = connection.now_ms()
            _limit(request, quotas.limits(connection.principal, client_id), len(frame))
        if len(frame) <= route.at_once_bytes:
            # Not for a client with limits: its response may have a throttle time, which must not be cached for others.
            if route.cached and not self._for_brokers and request.limits is None:
                request.cache_key = b"".join((connection.listener.encode(), frame[:4], frame[position:]))
                encoded = self._node.answers.get(request.cache_key)
                if encoded is not None:
                    request.answer_encoded(encoded)
                    return
            message = request_decoder(route.request_class, version)(frame, position)
        else:
            message = self._large.decode_at_once(request, route.request_class, frame, position)
            if message is None:
                self._serve_large(request, route, frame[position:])
                return
        try:
            result = route.handle(request, message)
            if result is not None:
                if type(result) is CoroutineType:
                    self._start(request, result)
                else:
                    request.answer(result)
        except Exception as error:
            self._failed(request, error)
        if request.limits is not None:
            request.limits.worked(connection.now_ms() - began_ms)
        took_ms = connection.now_ms() - connection.active_at_ms
        if took_ms < SHARE_MS:
            return
        connection.end_turn()
        if took_ms > TURN_MS_MAX:
            self._node.turns.too_long_for(took_ms, route.api.name, version, connection.peer, client_id, len(frame))

    async def drain(self) -> None:
        """Wait for the requests that are served in tasks of their own."""
        while self._tasks:
            # This waits for a turn of the event loop even if all tasks are done: they are removed in that turn.
            await asyncio.wait(self._tasks)

    def cancel(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    def _load_in_place_parser(self, connection: Connection, frame: memoryview) -> ProduceOperation | None:
        try:
            from semel.broker.produce.in_place_parser import InPlaceParser
        except OSError as error:
            raise DecodeError(f"Produce cannot be served now: {error}") from None

        parser = InPlaceParser(self._node, self._node.metrics.requests(APIS[ApiKey.PRODUCE].name))
        self._parse_in_place = parser.parse
        return parser.parse(connection, frame)

    def _load(self, api_key: int) -> _Route | None:
        if api_key not in self._served:
            return None
        key = ApiKey(api_key)
        api = APIS[key]
        try:
            handle: Callable[[Request, Any], object] = partial(handler_of(key), self._node)
            if self._node.audit is not None and not self._for_brokers:
                handle = self._audited(key, handle, self._node.audit)
            if self._node.authorizer is not None:
                handle = self._guarded(key, handle)
        except OSError as error:
            raise DecodeError(f"{api.name} cannot be served now: {error}") from None
        route = self._routes[key] = _Route(api, handle, self._node.metrics.requests(api.name))
        return route

    def _audited(
        self, key: ApiKey, handle: Callable[[Request, Any], object], audit: Audit
    ) -> Callable[[Request, Any], object]:
        from semel.broker.requests.audited_changes import audited

        return audited(audit, key, handle)

    def _guarded(self, key: ApiKey, handle: Callable[[Request, Any], object]) -> Callable[[Request, Any], object]:
        from semel.broker.requests.access.declarations import BROKERS_ONLY, guarded

        access = access_of(key)
        if self._for_brokers and key is not ApiKey.API_VERSIONS:
            access = BROKERS_ONLY
        if access is None:
            raise DecodeError(f"{APIS[key].name} is not served here: it declares no right that it needs")
        return guarded(self._node, access, handle)

    def _serve_large(self, request: Request, route: _Route, body: memoryview) -> None:
        request.in_slices = True
        self._start(request, self._large.serve(request, route.request_class, route.handle, bytearray(body)))

    def _start(self, request: Request, work: Coroutine[Any, Any, object]) -> None:
        request.delay(None, hold=True)
        task = asyncio.get_running_loop().create_task(self._finish(request, work))
        self._tasks[task] = None

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.pop(task, None)
            # A task that is cancelled before its first step never awaited the coroutine.
            work.close()

        task.add_done_callback(ended)

    async def _finish(self, request: Request, work: Coroutine[Any, Any, object]) -> None:
        try:
            result = await work
            if result is not None:
                request.answer(result)
        except DecodeError as error:
            request.refuse_as(error)
        except Exception as error:
            self._failed(request, error)

    def _failed(self, request: Request, error: Exception) -> None:
        match error:
            case KafkaError():
                code, text = error.code, error.message
            case StorageError() | OSError():
                # OSError also if a module could not be imported because no file descriptors are left.
                code, text = ErrorCode.KAFKA_STORAGE_ERROR, str(error)
                logger.error("%s could not be served: %s", request.api.name, error)
            case _:
                code, text = ErrorCode.UNKNOWN_SERVER_ERROR, "the broker met an unexpected error; its log says which"
                self._node.metrics.failed.value += 1
                logger.error(
                    "%s v%d from %s (client id %s) failed",
                    request.api.name,
                    request.version,
                    request.peer_host,
                    request.client_id,
                    exc_info=error,
                )
        # Produce has no error code for the whole request, so its connection is closed.
        response = None if request.parts is not None else whole_refusal(request.api, request.version, code, text)
        if response is None:
            request.refuse()
        else:
            request.answer(response)

    def _unsupported(self, connection: Connection, header: RequestHeader) -> None:
        api_key, version, correlation_id, _ = header
        if api_key != ApiKey.API_VERSIONS:
            raise DecodeError(f"API key {api_key} version {version} is not served")
        route = self._routes.get(api_key) or self._load(api_key)
        assert route is not None
        from semel.broker.requests.handlers.api_versions import unsupported_version

        request = Request(connection, route.api, 0, correlation_id, None, route.time)
        request.answer(unsupported_version(route.api))


def _limit(request: Request, limits: ClientLimits | None, size_bytes: int) -> None:
    """Apply the quotas of the client to a request."""
    request.limits = limits
    if limits is not None and request.api.key == ApiKey.PRODUCE:
        request.throttle(limits.produced(size_bytes))


class _Route:
    __slots__ = ("answers_in_slices", "api", "at_once_bytes", "cached", "handle", "request_class", "time")

    def __init__(self, api: Api, handle: Callable[[Request, Any], object], time: Histogram) -> None:
        self.api = api
        self.handle = handle
        self.time = time
        self.request_class = api.request_class
        self.cached = api.key in CACHED
        self.at_once_bytes = at_once_bytes(api.key)
        self.answers_in_slices = api.key in LARGE_ANSWERS
