"""A question to all shards of a coordinator, a few in each turn of the event loop: each may know a million ids."""

from __future__ import annotations

import asyncio
from typing import Any, Final, TypeVar

from semel.broker.coordinator import Coordinator
from semel.broker.shards import Decide
from semel.errors import ErrorCode

Shard = TypeVar("Shard")
Response = TypeVar("Response")

_SHARDS_PER_TURN: Final = 5


async def of_each_shard(
    coordinator: Coordinator[Shard, Any, Any], decide: Decide[Shard, Response, Any, Any]
) -> list[Response | ErrorCode]:
    """What each shard says, in their order."""
    loop = asyncio.get_running_loop()
    answers: list[Response | ErrorCode] = []
    for number, runtime in enumerate(coordinator, 1):
        answered: asyncio.Future[Response | ErrorCode] = loop.create_future()
        runtime.run(decide, answered.set_result)
        answers.append(await answered)
        if number % _SHARDS_PER_TURN == 0:
            await asyncio.sleep(0)
    return answers
