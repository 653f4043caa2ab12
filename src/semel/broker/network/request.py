"""One request of a client: its header, and the ways in which it is answered, delayed or refused.

The law: a request is answered at most once, in the version in which it was sent, and no answer is sent to a client that
is gone. A handler that delays a request passes the operation that waits (``delay``), so that the operation is abandoned
when the client leaves.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator
from functools import partial
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from semel.broker.metrics.metrics import Histogram
from semel.broker.network.answer_cache import AnswerCache
from semel.broker.network.connection import Connection
from semel.broker.waiting.delayed_operation import HasClient
from semel.errors import DecodeError
from semel.types import Buffer
from semel.wire.apis import Api
from semel.wire.framing import encode_response_in_slices, encode_response_parts

if TYPE_CHECKING:
    from semel.broker.quotas.client_quotas import ClientLimits

logger = logging.getLogger("semel.broker")

Amend: TypeAlias = Callable[[Any], Generator[None, None, object]]
"""A function that changes a response by the client's rights, in slices, and returns what is sent in its place."""


class Request:
    """One request, as its handler sees it."""

    __slots__ = (
        "_cache",
        "_clears",
        "_connection",
        "_gone",
        "_is_queued",
        "_operation",
        "_received_at_ms",
        "_throttle_ms",
        "_time",
        "amend",
        "api",
        "cache_key",
        "client_id",
        "correlation_id",
        "in_slices",
        "is_from_broker",
        "limits",
        "parts",
        "response_elements",
        "version",
    )

    def __init__(
        self,
        connection: Connection,
        api: Api,
        version: int,
        correlation_id: int,
        client_id: str | None,
        time: Histogram,
    ) -> None:
        self._connection = connection
        self._time = time
        self._received_at_ms = connection.active_at_ms
        self._is_queued = False
        self._gone = False
        self._operation: HasClient | None = None
        self._cache: AnswerCache | None = None
        self._clears = 0
        self.amend: Amend | None = None
        """Changes the response by the client's rights; None if nothing is to be changed."""
        self._throttle_ms = 0
        self.api = api
        self.version = version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.cache_key: bytes | None = None
        self.limits: ClientLimits | None = None
        """The quotas of the client; None if it has none."""
        self.response_elements = 0
        """How many elements the answer has, for APIs that count them: a short request may have a very large answer."""
        self.is_from_broker = False
        """Whether the request arrived at the listener of brokers."""
        self.in_slices = False
        """Whether the answer may be large. Then it is encoded in slices, and the client's next requests wait."""
        self.parts: list[Buffer] | None = None

    @property
    def connection(self) -> Connection:
        """The connection on which the request arrived. Only for comparisons."""
        return self._connection

    @property
    def peer_host(self) -> str:
        return self._connection.host

    @property
    def listener(self) -> str:
        """The name of the listener at which the request arrived."""
        return self._connection.listener

    @property
    def principal(self) -> str:
        """The principal of the client."""
        return self._connection.principal

    def room_bytes(self) -> int:
        """Return how many bytes of records the answer may have, by the memory that is left for answers."""
        return self._connection.responses.room_bytes(has_read=self._connection.has_read)

    @property
    def lacks_room(self) -> bool:
        """Whether there is no memory for a large batch of records."""
        return self._connection.responses.is_full_of_records(has_read=self._connection.has_read)

    def wait_for_room(self, resume: Callable[[], None]) -> None:
        """Call ``resume`` when there is memory for a large batch of records."""
        self._connection.responses.wait_with_records(resume, has_read=self._connection.has_read)

    def forget_room(self, resume: Callable[[], None]) -> None:
        self._connection.responses.forget(resume)

    @property
    def is_abandoned(self) -> bool:
        """Whether the client left while this request was delayed."""
        return self._gone

    def answer(self, response: object) -> None:
        """Send ``response``, after the answers of the requests before this one."""
        if self.limits is not None:
            self._tell_throttle_time(self.limits, response)
        if self.in_slices:
            self._encode(self._steps(response))
            return
        if self.amend is not None:
            response = _at_once(self.amend(response))
        parts = encode_response_parts(self.correlation_id, self.api, self.version, response)
        if self._cache is not None:
            self._keep(parts)
        self.send(parts)

    def throttle(self, throttle_ms: int) -> None:
        """Mute the client for this long after the answer is sent."""
        self._throttle_ms = max(self._throttle_ms, throttle_ms)

    def _tell_throttle_time(self, limits: ClientLimits, response: object) -> None:
        self.throttle(limits.time_throttle_ms())
        if self._throttle_ms and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = self._throttle_ms

    def answer_delayed(self, make_response: Callable[[], object]) -> None:
        """Send the response of a request whose handler has already returned."""
        try:
            self.answer(make_response())
        except Exception:
            self.give_up()

    def give_up(self) -> None:
        """After an unexpected exception outside the handler, while it is caught: log it, and close this connection."""
        logger.exception("%s v%d from %s failed while it was delayed", self.api.name, self.version, self.peer_host)
        self.refuse()

    def answer_encoded(self, frame: bytes) -> None:
        """Send a whole response frame that was encoded for another request of this API and version."""
        own = bytearray(frame)
        _CORRELATION_ID.pack_into(own, _CORRELATION_ID_POSITION, self.correlation_id)
        self.send([own])

    def send(self, parts: list[Buffer]) -> None:
        """Send an answer that is encoded already."""
        assert self.parts is None, f"{self.api.name} answered twice"
        self._operation = None
        self.parts = parts
        connection = self._connection
        self._time.observe((connection.now_ms() - self._received_at_ms) / 1000)
        if self._is_queued:
            connection.answered(self)
        else:
            connection.reply(parts)
        if self.limits is not None and self._throttle_ms:
            self.limits.muted()
            connection.mute(self._throttle_ms)

    def answer_nothing(self) -> None:
        """Finish a request that has no answer (Produce with acks=0)."""
        self.send([])

    def refuse(self) -> None:
        """Close the connection, because no answer would be true. The client then finds out the outcome itself."""
        self._operation = None
        self._connection.close()

    def refuse_as(self, error: DecodeError) -> None:
        """Close the connection because this request cannot be served."""
        self._operation = None
        self._connection.refuse(error)

    def delay(self, operation: HasClient | None, *, hold: bool) -> None:
        """Answer the request later; ``operation`` is abandoned if the client leaves before that.

        With ``hold`` the client's next requests are not served until then. A second call replaces the operation, and
        the request keeps its place in the order of answers.
        """
        self._operation = operation
        if not self._is_queued:
            self._is_queued = True
            self._connection.begin(self, hold=hold)
        elif not hold:
            self._connection.release(self)

    def hold_until_answered(self, operation: HasClient | None = None) -> None:
        """Serve none of the client's next requests until this one is answered, if it is not yet."""
        if self.parts is None:
            self.delay(operation, hold=True)

    def cacheable(self, cache: AnswerCache) -> None:
        """Put the answer into the cache: until the image changes, it answers every request with the same bytes.

        The answer must be made from the present image, or from a later one.
        """
        self._cache, self._clears = cache, cache.clears

    def abandoned(self) -> None:
        self._gone = True
        operation, self._operation = self._operation, None
        if operation is not None:
            operation.abandoned()

    def _steps(self, response: object) -> Generator[None, None, list[Buffer]]:
        if self.amend is not None:
            response = yield from self.amend(response)
        return (yield from encode_response_in_slices(self.correlation_id, self.api, self.version, response))

    def _encode(self, steps: Generator[None, None, list[Buffer]]) -> None:
        try:
            next(steps)
        except StopIteration as end:
            self._keep(end.value)
            self.send(end.value)
        else:
            # The connection serves no other request meanwhile: this answer has its place in the order.
            self.delay(None, hold=True)
            self._connection.soon(partial(self._encode_on, steps))

    def _encode_on(self, steps: Generator[None, None, list[Buffer]]) -> None:
        if self._gone:
            return
        try:
            self._encode(steps)
        except Exception:
            logger.exception("%s v%d from %s could not be answered", self.api.name, self.version, self.peer_host)
            self.refuse()

    def _keep(self, parts: list[Buffer]) -> None:
        if self._cache is not None and self.cache_key is not None:
            self._cache.put(self.cache_key, b"".join(parts), clears=self._clears)


def _at_once(steps: Generator[None, None, object]) -> object:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


_CORRELATION_ID: Final = Struct(">i")
_CORRELATION_ID_POSITION: Final = 4
