"""InitProducerId while no block of producer ids can be claimed: clients get an error after which all of them retry."""

from __future__ import annotations

import errno

import pytest

from semel.errors import ErrorCode
from semel.testing.simulation import Simulation, run
from semel.testing.virtual.disk_faults import DiskFault, Operation
from semel.wire.apis import ApiKey
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from tests.simulation.served_broker import ServedBroker


@pytest.mark.parametrize("transactional_id", [None, "p"], ids=["idempotent", "transactional"])
def test_a_producer_that_starts_while_no_id_can_be_claimed_is_told_to_ask_again(transactional_id: str | None) -> None:
    """COORDINATOR_LOAD_IN_PROGRESS, as in Kafka: aiokafka and older clients give up after any other error."""

    async def scenario(simulation: Simulation) -> None:
        served = ServedBroker(simulation)
        served.start()
        await served.until_up()
        client, request = served.client(), InitProducerIdRequest(transactional_id, 60_000)
        found = await client.call(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest(key="p", key_type=1))
        assert found.error_code == ErrorCode.NONE
        served.host.disk.fail(DiskFault(Operation.WRITE, "/data/metadata*", error=errno.ENOSPC, times=None))
        answer = await client.call(ApiKey.INIT_PRODUCER_ID, 4, request)
        assert answer.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        served.host.disk.repair()
        answer = await client.call(ApiKey.INIT_PRODUCER_ID, 4, request)
        assert (answer.error_code, answer.producer_epoch) == (ErrorCode.NONE, 0)

    run(scenario)
