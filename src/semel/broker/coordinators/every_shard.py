"""Requests to all shards of a coordinator, a few shards in each turn of the event loop, since each may have a million
ids."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from semel.broker.coordinators.coordinator import Coordinator
from semel.broker.coordinators.shard_runtime import AnyShard, Decide, Response, ShardRuntime
from semel.broker.turns import Turns
from semel.coordinator.decision import Waiter
from semel.errors import ErrorCode, KafkaError

SLICE_IDS: Final = 1000
_SHARDS_PER_TURN: Final = 5


async def each_shard(coordinator: Coordinator[AnyShard], turns: Turns) -> AsyncIterator[ShardRuntime[AnyShard]]:
    for number, runtime in enumerate(coordinator, 1):
        yield runtime
        if number % _SHARDS_PER_TURN == 0:
            await turns.pause()


async def ask(
    runtime: ShardRuntime[AnyShard], decide: Decide[AnyShard, Response], *, is_confirmed: bool = True
) -> Response:
    """Run a request in the shard, and return its response. Raises KafkaError if the shard does not serve now.

    ``is_confirmed`` is described in ``ShardRuntime.run``.
    """
    answered: asyncio.Future[Response | ErrorCode] = asyncio.get_running_loop().create_future()
    runtime.run(decide, Waiter(respond_to(answered), refused=lambda error: error), is_confirmed=is_confirmed)
    answer = await answered
    if isinstance(answer, ErrorCode):
        raise KafkaError(answer, f"{runtime.partition.topic_partition} has no active coordinator")
    return answer


def respond_to(answered: asyncio.Future[Any]) -> Callable[[Any], None]:
    """Return a ``Waiter.respond`` that sets the result of this future, unless the task that awaits it was cancelled."""

    def respond(response: Any) -> None:
        if not answered.done():
            answered.set_result(response)

    return respond


async def slices(elements: list[Response], turns: Turns) -> AsyncIterator[list[Response]]:
    """Yield the elements in slices, one in each turn of the event loop; without a pause if there is only one slice."""
    for start in range(0, len(elements), SLICE_IDS):
        if start:
            await turns.pause()
        some = elements[start : start + SLICE_IDS]
        turns.worked(len(some))
        yield some
