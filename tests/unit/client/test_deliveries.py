"""Those who sent records are told what became of them, each on its own and in order."""

from __future__ import annotations

import asyncio
import concurrent.futures
import weakref
from typing import Any

import pytest

from semel.client.deliveries import settle
from semel.client.machine.producer.batch import Acknowledged, Settlement
from semel.client.values import RecordMetadata
from semel.errors import AbortableError, ErrorCode

Future = concurrent.futures.Future[RecordMetadata]


def written(deliveries: list[Any], acknowledged: Acknowledged) -> Settlement:
    return Settlement("orders", 3, deliveries, [100 + number for number in range(len(deliveries))], acknowledged)


@pytest.mark.parametrize(
    ("acknowledged", "told"),
    [
        (Acknowledged(7, None), [("orders", 3, 7, 100), ("orders", 3, 8, 101), ("orders", 3, 9, 102)]),
        (Acknowledged(7, 555), [("orders", 3, 7, 555), ("orders", 3, 8, 555), ("orders", 3, 9, 555)]),
        (Acknowledged(None, None), [("orders", 3, None, 100), ("orders", 3, None, 101), ("orders", 3, None, 102)]),
    ],
    ids=["offsets", "the broker's time", "neither is known"],
)
def test_every_sender_is_told_of_its_own_record(
    acknowledged: Acknowledged, told: list[tuple[str, int, int | None, int]]
) -> None:
    futures = [Future() for _ in range(3)]
    settle(written(list(futures), acknowledged))
    assert [future.result(0) for future in futures] == [RecordMetadata(*one) for one in told]


def test_one_that_was_cancelled_is_left_alone_and_takes_nobody_elses_place() -> None:
    async def scenario() -> None:
        futures = [asyncio.get_running_loop().create_future() for _ in range(3)]
        futures[1].cancel()
        settle(written(list(futures), Acknowledged(7, None)))
        assert [futures[0].result().offset, futures[1].cancelled(), futures[2].result().offset] == [7, True, 9]

    asyncio.run(scenario())


def test_a_failure_is_told_to_all() -> None:
    futures = [Future() for _ in range(2)]
    error = AbortableError(ErrorCode.MESSAGE_TOO_LARGE, "too large")
    settle(Settlement("orders", 3, list(futures), [1, 2], error))
    assert [future.exception(0) for future in futures] == [error, error]


def test_a_future_that_nobody_holds_is_gone_before_the_next_is_told() -> None:
    """Else all of a batch would be there at once, and the garbage collector would look at each of them."""
    alive: list[int] = []
    unheld: weakref.WeakSet[Unheld] = weakref.WeakSet()

    class Unheld:
        def set_result(self, result: RecordMetadata) -> None:
            alive.append(len(unheld))

    deliveries = [Unheld() for _ in range(3)]
    unheld.update(deliveries)
    settlement = written(deliveries, Acknowledged(0, None))
    del deliveries
    settle(settlement)
    assert alive == [3, 2, 1]
