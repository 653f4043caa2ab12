"""A broker that is killed in a process that lives on leaves nothing behind of the requests it was serving."""

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
