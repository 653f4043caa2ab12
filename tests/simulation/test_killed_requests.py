"""What becomes of the requests that a broker is serving when it is killed, or stopped."""

from __future__ import annotations

import asyncio
import gc
import warnings
from typing import cast

from semel.broker.network.connection import Connection
from semel.broker.network.request import Request
from semel.broker.requests.dispatch import Dispatcher
from semel.testing.simulation import Simulation, run
from semel.wire.apis import APIS, ApiKey
from semel.wire.framing import encode_request
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.simulation.served_broker import ServedBroker


class Held:
    """A connection that takes requests, and is never there when they are answered."""

    host = "client"
    active_at_ms = 0.0

    def now_ms(self) -> float:
        return 0.0

    def begin(self, request: Request, *, hold: bool) -> None: ...


async def killed_before_the_first_step(simulation: Simulation) -> None:
    served = ServedBroker(simulation)
    served.start()
    await served.until_up()
    dispatcher = Dispatcher(served.broker.node)
    # It has to wait until the internal topic is there.
    message = FindCoordinatorRequest(key="group", key_type=0)
    frame = encode_request(1, APIS[ApiKey.FIND_COORDINATOR], 3, message, client_id="c")
    dispatcher.request(cast(Connection, Held()), memoryview(frame)[4:])
    dispatcher.cancel()
    await asyncio.sleep(0.1)


def test_a_request_that_is_cancelled_before_its_first_step_is_not_forgotten() -> None:
    gc.collect()  # What earlier tests of this process left unclosed is not this one's.
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        run(killed_before_the_first_step)
        gc.collect()
    assert [str(warning.message) for warning in raised] == []


async def stopped_in_the_turn_in_which_a_request_ends(simulation: Simulation) -> None:
    served = ServedBroker(simulation)
    served.start()
    await served.until_up()
    dispatcher = Dispatcher(served.broker.node)

    async def ends_at_once() -> None: ...

    dispatcher._start(cast(Request, Started()), ends_at_once())
    await asyncio.create_task(dispatcher.drain())  # After the request's own first and last step.


class Started:
    def delay(self, abandoned: object, *, hold: bool) -> None: ...


def test_a_broker_can_be_stopped_in_the_turn_in_which_a_request_ends() -> None:
    """It waited, without giving up its turn, until the request was no longer noted as running: for ever."""
    run(stopped_in_the_turn_in_which_a_request_ends)
