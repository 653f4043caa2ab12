"""Questions to the coordinator of a transaction on another broker: how many are sent together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from semel.broker.coordinators.remote_admission import PARTITIONS_PER_REQUEST, RemoteAdmission
from semel.coordinator.decision import Waiter
from semel.coordinator.transaction.results import AddPartitionsResult
from semel.errors import ErrorCode
from semel.types import ProducerIdentity, TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest


class Coordinator:
    """Does not answer."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        """For each request, the number of partitions of each of its transactions."""

    def ask(
        self,
        node_id: int,
        purpose: object,
        api: ApiKey,
        request: AddPartitionsToTxnRequest,
        answered: Callable[[object], None],
    ) -> None:
        self.asked.append([sum(len(topic.partitions) for topic in asked.topics) for asked in request.transactions])
        asyncio.get_running_loop().call_soon(answered, None)


def test_questions_for_very_many_partitions_are_sent_in_several_requests() -> None:
    """A request with more than 100,000 elements would close the connection, for all that are in it."""

    async def scenario() -> None:
        coordinator, told = Coordinator(), list[AddPartitionsResult]()
        admission = RemoteAdmission(cast(Any, coordinator), asyncio.get_running_loop())
        sizes = [1, PARTITIONS_PER_REQUEST - 1, 2 * PARTITIONS_PER_REQUEST, 1, 1, PARTITIONS_PER_REQUEST, 1]
        for number, size in enumerate(sizes):
            partitions = [TopicPartition("orders", index) for index in range(size)]
            waiter = Waiter(told.append, AddPartitionsResult)
            admission.ask(2, f"t{number}", ProducerIdentity(number, 0), partitions, adds=True, waiter=waiter)
        while len(told) < len(sizes):
            await asyncio.sleep(0)
        assert coordinator.asked == [
            [1, PARTITIONS_PER_REQUEST - 1],
            [2 * PARTITIONS_PER_REQUEST],
            [1, 1, 1],
            [PARTITIONS_PER_REQUEST],
        ]
        assert told == [AddPartitionsResult(ErrorCode.NETWORK_EXCEPTION)] * len(sizes)

    asyncio.run(scenario())
