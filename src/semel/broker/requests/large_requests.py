"""Serves requests with many elements in slices, one request after the other, so that no other request waits for them.

The law: no request keeps the event loop busy for longer than 50 ms. A usual request is decoded and served at once. The
elements of a request larger than ``AT_ONCE_BYTES`` are counted: if they are few (its bytes are records or metadata), it
is served at once as well. Otherwise it is served here, and its connection is not read meanwhile:

1. It is decoded from a copy, in slices (``wire.decoding``). More than ``ELEMENTS_MAX`` elements close the connection.
2. If the elements are independent (``SPLIT``), it is cut into pieces that are served one by one (``pieces``). If they
   need one decision, their number is limited instead (``WHOLE_MAX``), and more are refused with INVALID_REQUEST.
3. The response is encoded in slices (``request``).

Only one large request is decoded at a time, and the others wait in a queue; so the memory that they take is bounded.
There are two such queues. A piece may wait for other brokers, until its records are committed. Requests that are not
cut into pieces do not wait behind it: one of them may be the Fetch of the follower that has to copy these records.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from operator import attrgetter
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
"""The largest frame that is served without counting its elements; ``AT_ONCE_BYTES_OF`` has other limits."""
AT_ONCE_BYTES_OF: Final = {
    # The response has all settings of each resource.
    ApiKey.DESCRIBE_CONFIGS: 128,
    # For each partition, a log may have to be searched for a timestamp.
    ApiKey.LIST_OFFSETS: 1024,
}
ELEMENTS_MAX: Final = 100_000
"""The maximum number of elements of a request. The largest known clients have some ten thousand partitions."""
ELEMENTS_MAX_OF: Final = {
    # A request for more than 10,000 partitions is refused as a whole, with a result for every topic.
    ApiKey.CREATE_TOPICS: 20_000,
}
COPIES_BYTES_MAX: Final = 64 * 1024 * 1024
"""The maximum size of the copies of all large requests that wait or are served."""


class Split(NamedTuple):
    """How requests of an API are cut into pieces of at most ``size`` elements."""

    size: int
    lists: Lists
    since: int = 0
    """The first version with ``lists``; the versions before have the lists ``earlier``."""
    earlier: Lists | None = None
    refused_whole: Callable[[Any], bool] = lambda message: False
    """Whether the handler refuses a message as a whole. This is quick, so the message need not be cut."""

    def lists_in(self, version: int) -> Lists:
        return self.lists if version >= self.since or self.earlier is None else self.earlier


_TOPICS: Final = Lists(("topics", "partitions"), ("topics", "partitions"))


def _asks_for_too_many_partitions(message: CreateTopicsRequest) -> bool:
    """Whether a request exceeds Kafka's limit of partitions for one request, so that it must not be cut."""
    return sum(max(1, topic.num_partitions or 1) for topic in message.topics) > PARTITIONS_PER_REQUEST_MAX


SPLIT: Final[dict[ApiKey, Split]] = {
    ApiKey.PRODUCE: Split(500, Lists(("topic_data", "partition_data"), ("responses", "partition_responses"))),
    ApiKey.LIST_OFFSETS: Split(50, _TOPICS),
    ApiKey.OFFSET_COMMIT: Split(500, _TOPICS),
    ApiKey.OFFSET_FETCH: Split(
        500,
        Lists(("groups", "topics", "partition_indexes"), ("groups", "topics", "partitions"), attrgetter("group_id")),
        since=8,
        earlier=Lists(("topics", "partition_indexes"), ("topics", "partitions")),
    ),
    ApiKey.FIND_COORDINATOR: Split(500, Lists(("coordinator_keys",), ("coordinators",), str)),
    ApiKey.LEAVE_GROUP: Split(50, Lists(("members",), ("members",))),
    ApiKey.DESCRIBE_GROUPS: Split(20, Lists(("groups",), ("groups",), str)),
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
            attrgetter("transactional_id"),
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
    ApiKey.DELETE_GROUPS: Split(100, Lists(("groups_names",), ("results",), str)),
    ApiKey.ELECT_LEADERS: Split(
        50, Lists(("topic_partitions", "partitions"), ("replica_election_results", "partition_result"))
    ),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Split(50, Lists(("topics", "partitions"), ("responses", "partitions"))),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: Split(500, Lists(("topics", "partition_indexes"), ("topics", "partitions"))),
    ApiKey.OFFSET_DELETE: Split(500, _TOPICS),
    ApiKey.DESCRIBE_PRODUCERS: Split(50, Lists(("topics", "partition_indexes"), ("topics", "partitions"))),
    ApiKey.DESCRIBE_TRANSACTIONS: Split(100, Lists(("transactional_ids",), ("transaction_states",), str)),
    ApiKey.CONSUMER_GROUP_DESCRIBE: Split(20, Lists(("group_ids",), ("groups",), str)),
}

# The number of new objects that the next garbage collection would take some ten milliseconds for.
_YOUNG_MAX: Final = 20_000

WHOLE_MAX: Final = 1000
"""The maximum number of elements of a request that is served as a whole; ``WHOLE_MAX_OF`` has other limits."""
IN_OWN_SLICES: Final = frozenset({ApiKey.FETCH, ApiKey.METADATA})
"""APIs whose handlers work in slices themselves."""
WHOLE_MAX_OF: Final = {
    ApiKey.FETCH: ELEMENTS_MAX,
    ApiKey.METADATA: ELEMENTS_MAX,
    # One decision of the group coordinator. Kafka's limit is the size of the record that stores the group.
    ApiKey.SYNC_GROUP: 10_000,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: 10_000,
    # Each element takes little time.
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: 10_000,
    ApiKey.DESCRIBE_LOG_DIRS: 10_000,
    ApiKey.LIST_TRANSACTIONS: 10_000,
}


@asynccontextmanager
async def _no_collection() -> AsyncIterator[None]:
    """Disable Python's garbage collector while a large request is decoded and served.

    The request makes hundreds of thousands of objects that are not garbage. Visiting all of them takes longer than a
    turn may, and the collector would do so repeatedly. The objects that are still alive at the end, until the response
    is sent, are frozen, so the collector never visits them. So they must not have reference cycles, which would never
    be freed (tests/broker/requests/test_wide_requests.py).
    """
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
    """Return how many elements the handler of an API may get in one call."""
    if key in IN_OWN_SLICES:
        return WHOLE_MAX
    split = SPLIT.get(key)
    return WHOLE_MAX_OF.get(key, WHOLE_MAX) if split is None else split.size


class LargeRequests:
    """The queues of large requests."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._first_whole = asyncio.Lock()
        self._first_in_pieces = asyncio.Lock()
        self._copied_bytes = 0

    def decode_at_once(self, request: Request, request_class: type[Any], frame: memoryview, position: int) -> Any:
        """Return the message if it has so few elements that it can be served at once, otherwise None.

        Raises ``DecodeError``, also for more elements than a request may have.
        """
        steps = sliced_decoder(request_class, request.version)(frame, position, elements_max(request.api.key))
        try:
            next(steps)
        except StopIteration as end:
            message, elements = end.value
            split = SPLIT.get(request.api.key)
            if split is not None:
                elements += split.lists_in(request.version).weight_of_ids(message)
            if elements > at_once_elements(request.api.key):
                return None
            self._turns.worked(elements)
            return message
        return None

    def serve(
        self, request: Request, request_class: type[Any], handle: Callable[[Request, Any], object], body: bytearray
    ) -> Coroutine[Any, Any, object]:
        """Return a coroutine that serves a request and returns the response, or None if the handler sends it itself.

        Raises ``DecodeError`` at once if the waiting requests are too large together. The coroutine raises it if the
        body cannot be decoded.
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
        first = self._first_in_pieces if request.api.key in SPLIT else self._first_whole
        try:
            async with first, _no_collection():
                if request.is_abandoned:
                    return None
                decode = sliced_decoder(request_class, request.version)
                steps = decode(body, 0, elements_max(request.api.key))
                message, elements = await self._turns.run(steps, elements=SLICE_ELEMENTS)
                del body  # Only the records of a Produce still refer to it.
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
                del message  # Most of the objects that the garbage collector would have to visit.
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
        lists = split.lists_in(request.version)
        responses: list[Part] = []
        for part, continued_depth in cut(message, lists, split.size):
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
                if response is None:  # The client wants no response (acks=0).
                    await self._turns.pause()
                    continue
            if piece.amend is not None:
                response = await self._turns.run(piece.amend(response), elements=split.size)
            if getattr(response, "error_code", 0):
                return response  # The error is for the whole request.
            responses.append(Part(response, continued_depth))
            await self._turns.pause()
        if not responses:
            request.answer_nothing()
            return None
        return join(responses, lists.answered)
