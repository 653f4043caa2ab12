"""Requests with many elements: served a slice at a time, one after the other, so that no other request waits for them.

The law: no request keeps the event loop longer than 50 ms. A usual request is decoded and served at once. One that is
larger than ``AT_ONCE_BYTES`` is looked at more closely: if it has few elements (its bytes are records or metadata), it
is served at once as well. Else it comes here, and its connection is held meanwhile:

1. It is decoded from a copy, in slices (``wire.decoding``). More than ``ELEMENTS_MAX`` elements close the connection.
2. Where the elements are independent (``SPLIT``), it is cut into pieces that are served one by one (``pieces``). What
   is one decision is limited in size instead (``WHOLE_MAX``), and refused with INVALID_REQUEST beyond that.
3. The answer is encoded in slices (``request``).

One large request is decoded at a time, the others wait in line; so what they take in memory is bounded.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from semel.broker.network.request import Request
from semel.broker.requests.pieces import Lists, Part, Piece, cut, join
from semel.broker.turns import Turns
from semel.errors import DecodeError, ErrorCode, KafkaError
from semel.metadata.controller import PARTITIONS_PER_REQUEST_MAX
from semel.wire.apis import ApiKey
from semel.wire.codec import sliced_decoder
from semel.wire.decoding import SLICE_ELEMENTS

if TYPE_CHECKING:  # Messages are imported with the first request that needs them.
    from semel.wire.messages.create_topics import CreateTopicsRequest

AT_ONCE_BYTES: Final = 4096
"""A frame of this size is served without a second look, unless its API is listed in ``AT_ONCE_BYTES_OF``."""
AT_ONCE_BYTES_OF: Final = {
    # Each resource is answered with all its settings.
    ApiKey.DESCRIBE_CONFIGS: 128,
    # Each of them may have to look for a time in a log.
    ApiKey.LIST_OFFSETS: 1024,
}
ELEMENTS_MAX: Final = 100_000
"""Of any request. The largest clients that are known have some ten thousand partitions."""
ELEMENTS_MAX_OF: Final = {
    # With more than 10,000 partitions it is refused as a whole, and that refusal names every topic.
    ApiKey.CREATE_TOPICS: 20_000,
}
COPIES_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of the large requests that wait or are being served, together."""


class Split(NamedTuple):
    """How an API's requests are cut: into pieces of at most ``size`` elements."""

    size: int
    lists: Lists
    since: int = 0
    """Up to the version before, ``earlier`` holds."""
    earlier: Lists | None = None
    refused_whole: Callable[[Any], bool] = lambda message: False
    """Whether the handler refuses a message as a whole, which takes no time."""

    def lists_in(self, version: int) -> Lists:
        return self.lists if version >= self.since or self.earlier is None else self.earlier


_TOPICS: Final = Lists(("topics", "partitions"), ("topics", "partitions"))


def _asks_for_too_many_partitions(message: CreateTopicsRequest) -> bool:
    """Kafka's limit for one request, POLICY_VIOLATION, holds for all of it."""
    return sum(max(1, topic.num_partitions or 1) for topic in message.topics) > PARTITIONS_PER_REQUEST_MAX


SPLIT: Final[dict[ApiKey, Split]] = {
    ApiKey.PRODUCE: Split(500, Lists(("topic_data", "partition_data"), ("responses", "partition_responses"))),
    ApiKey.LIST_OFFSETS: Split(50, _TOPICS),
    ApiKey.OFFSET_COMMIT: Split(500, _TOPICS),
    ApiKey.OFFSET_FETCH: Split(
        500,
        Lists(("groups", "topics", "partition_indexes"), ("groups", "topics", "partitions")),
        since=8,
        earlier=Lists(("topics", "partition_indexes"), ("topics", "partitions")),
    ),
    ApiKey.FIND_COORDINATOR: Split(500, Lists(("coordinator_keys",), ("coordinators",))),
    ApiKey.LEAVE_GROUP: Split(50, Lists(("members",), ("members",))),
    ApiKey.DESCRIBE_GROUPS: Split(20, Lists(("groups",), ("groups",))),
    ApiKey.CREATE_TOPICS: Split(50, Lists(("topics",), ("topics",)), refused_whole=_asks_for_too_many_partitions),
    ApiKey.DELETE_TOPICS: Split(
        50, Lists(("topics",), ("responses",)), since=6, earlier=Lists(("topic_names",), ("responses",))
    ),
    ApiKey.DELETE_RECORDS: Split(50, _TOPICS),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: Split(500, _TOPICS),
    ApiKey.ADD_PARTITIONS_TO_TXN: Split(
        500,
        Lists(
            ("transactions", "topics", "partitions"),
            ("results_by_transaction", "topic_results", "results_by_partition"),
        ),
        since=4,
        earlier=Lists(("v3_and_below_topics", "partitions"), ("results_by_topic_v3_and_below", "results_by_partition")),
    ),
    ApiKey.WRITE_TXN_MARKERS: Split(
        200, Lists(("markers", "topics", "partition_indexes"), ("markers", "topics", "partitions"))
    ),
    ApiKey.TXN_OFFSET_COMMIT: Split(500, _TOPICS),
    ApiKey.DESCRIBE_CONFIGS: Split(10, Lists(("resources",), ("results",))),
    ApiKey.ALTER_CONFIGS: Split(50, Lists(("resources",), ("responses",))),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Split(50, Lists(("resources",), ("responses",))),
    ApiKey.CREATE_PARTITIONS: Split(50, Lists(("topics",), ("results",))),
    ApiKey.DELETE_GROUPS: Split(100, Lists(("groups_names",), ("results",))),
    ApiKey.OFFSET_DELETE: Split(500, _TOPICS),
    ApiKey.DESCRIBE_PRODUCERS: Split(50, Lists(("topics", "partition_indexes"), ("topics", "partitions"))),
    ApiKey.DESCRIBE_TRANSACTIONS: Split(100, Lists(("transactional_ids",), ("transaction_states",))),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Split(20, Lists(("group_ids",), ("groups",))),
}

# Objects that the next collection would walk through, in some ten milliseconds.
_YOUNG_MAX: Final = 20_000

WHOLE_MAX: Final = 1000
"""How many elements a request may have that is served as a whole, unless its API is listed below."""
IN_OWN_SLICES: Final = frozenset({ApiKey.FETCH, ApiKey.METADATA})
"""What their handlers do takes turns by itself."""
WHOLE_MAX_OF: Final = {
    ApiKey.FETCH: ELEMENTS_MAX,
    ApiKey.METADATA: ELEMENTS_MAX,
    # One decision of a group. Kafka's limit is the size of the record that keeps the group.
    ApiKey.SYNC_GROUP: 10_000,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 10_000,
    # Cheap for each element.
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: 10_000,
    ApiKey.DESCRIBE_LOG_DIRS: 10_000,
    ApiKey.LIST_TRANSACTIONS: 10_000,
}


@asynccontextmanager
async def _no_collection() -> AsyncIterator[None]:
    """Python's garbage collector stays away while hundreds of thousands of objects come that are no garbage: to walk
    through all of them takes longer than a turn may, and it would do so again and again. Those that live on, until
    the answer has left, it never looks at. So they must have no circles, and go when nothing refers to them: a circle
    would be kept for good (tests/broker/requests/test_wide_requests.py)."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if gc.get_count()[0] > _YOUNG_MAX:
                gc.freeze()
            gc.enable()


def elements_max(key: ApiKey) -> int:
    return ELEMENTS_MAX_OF.get(key, ELEMENTS_MAX)


def at_once_bytes(key: ApiKey) -> int:
    return AT_ONCE_BYTES_OF.get(key, AT_ONCE_BYTES)


def at_once_elements(key: ApiKey) -> int:
    """How many elements are handed to the handler at once."""
    if key in IN_OWN_SLICES:
        return WHOLE_MAX
    split = SPLIT.get(key)
    return WHOLE_MAX_OF.get(key, WHOLE_MAX) if split is None else split.size


class LargeRequests:
    """The line of large requests."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._first = asyncio.Lock()
        self._copied_bytes = 0

    def decode_at_once(self, request: Request, request_class: type[Any], frame: memoryview, position: int) -> Any:
        """The message, if it has few enough elements to be served at once; else None.

        Raises DecodeError, also for more elements than any request may have.
        """
        steps = sliced_decoder(request_class, request.version)(frame, position, elements_max(request.api.key))
        try:
            next(steps)
        except StopIteration as end:
            message, elements = end.value
            if elements > at_once_elements(request.api.key):
                return None
            self._turns.worked(elements)
            return message
        return None

    def serve(
        self, request: Request, request_class: type[Any], handle: Callable[[Request, Any], object], body: bytearray
    ) -> Coroutine[Any, Any, object]:
        """The response, or None if it was or will be answered otherwise.

        Raises DecodeError at once if too much waits already, and later for what the body contains.
        """
        size_bytes = len(body)
        if self._copied_bytes and self._copied_bytes + size_bytes > COPIES_BYTES_MAX:
            raise DecodeError(
                f"a large request of {size_bytes} bytes while {self._copied_bytes} bytes of others are served; "
                f"the limit is {COPIES_BYTES_MAX}"
            )
        self._copied_bytes += size_bytes
        return self._serve(request, request_class, handle, body, size_bytes)

    async def _serve(
        self,
        request: Request,
        request_class: type[Any],
        handle: Callable[[Request, Any], object],
        body: bytearray,
        size_bytes: int,
    ) -> object:
        loop = asyncio.get_running_loop()
        try:
            async with self._first, _no_collection():
                if request.is_abandoned:
                    return None
                decode = sliced_decoder(request_class, request.version)
                steps = decode(body, 0, elements_max(request.api.key))
                message, elements = await self._turns.run(steps, elements=SLICE_ELEMENTS)
                del body  # Only the records of a Produce point into it.
                split = SPLIT.get(request.api.key)
                if split is None or split.refused_whole(message):
                    most = WHOLE_MAX_OF.get(request.api.key, WHOLE_MAX)
                    if split is None and elements > most:
                        raise KafkaError(
                            ErrorCode.INVALID_REQUEST,
                            f"{request.api.name} with {elements} elements; the limit is {most}",
                        )
                    if split is None and request.api.key not in IN_OWN_SLICES:
                        self._turns.worked(elements)
                    result = handle(request, message)
                else:
                    result = await self._serve_pieces(request, split, handle, message, loop)
                del message  # Most of what the collector would have to walk through.
            if type(result) is CoroutineType:
                result = await result
            return result
        finally:
            self._copied_bytes -= size_bytes

    async def _serve_pieces(
        self,
        request: Request,
        split: Split,
        handle: Callable[[Request, Any], object],
        message: Any,
        loop: asyncio.AbstractEventLoop,
    ) -> object:
        asked, answered = split.lists_in(request.version)
        responses: list[Part] = []
        for part, goes_on in cut(message, asked, split.size):
            if request.is_abandoned:
                return None
            piece = Piece(request, loop)
            self._turns.worked(split.size)
            response = handle(piece.as_request(), part)
            if type(response) is CoroutineType:
                response = await response
            elif response is None:
                request.delay(piece, hold=True)
                response = await piece.answered
                if response is None:  # None is wanted (acks=0).
                    await self._turns.pause()
                    continue
            if piece.amend is not None:
                response = await self._turns.run(piece.amend(response), elements=split.size)
            if getattr(response, "error_code", 0):
                return response  # It is true of the whole request.
            responses.append(Part(response, goes_on))
            await self._turns.pause()
        if not responses:
            request.answer_nothing()
            return None
        return join(responses, answered)
