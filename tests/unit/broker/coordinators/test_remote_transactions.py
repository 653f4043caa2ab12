"""Which transaction a producer id belongs to: asked of all coordinators, and never for all that they know."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from semel.broker.coordinators.remote_transactions import Owner, RemoteTransactions
from semel.broker.requests.large_requests import at_once_elements
from semel.coordinator.transaction import records, transitions
from semel.metadata.image import PartitionState
from semel.types import TRANSACTION_STATE_TOPIC
from semel.wire.apis import ApiKey
from semel.wire.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

HERE, THERE = 1, 2
ROTATED = transitions.created("t", producer_id=8, timeout_ms=1, now_ms=0)._replace(last_producer_id=7)


class Asking:
    """A broker that leads one shard, and asks the leader of the other one."""

    def __init__(self) -> None:
        self.asked: list[list[int]] = []
        led = [PartitionState(leader=leader, leader_epoch=3, replicas=(leader,), isr=(leader,)) for leader in (1, 2)]
        node = SimpleNamespace(
            config=SimpleNamespace(node_id=HERE),
            image=SimpleNamespace(topics={TRANSACTION_STATE_TOPIC: SimpleNamespace(partitions=led)}),
            cluster=SimpleNamespace(refresh=self._refresh),
            coordinators=SimpleNamespace(transactions=SimpleNamespace(all_led_shards_loaded=True)),
        )
        self._remote = RemoteTransactions(cast(Any, node), cast(Any, self), asyncio.get_running_loop())

    async def owners(self, *producer_ids: int) -> dict[int, Owner]:
        return await self._remote.owners(frozenset(producer_ids), self._search_here)

    async def _search_here(self, producer_ids: frozenset[int]) -> dict[int, Owner]:
        return {}

    async def _refresh(self) -> None:
        """The image is fresh."""

    def ask(
        self,
        node_id: int,
        purpose: object,
        api: ApiKey,
        request: ListTransactionsRequest,
        answered: Callable[[ListTransactionsResponse], None],
    ) -> None:
        assert (node_id, api) == (THERE, ApiKey.LIST_TRANSACTIONS)
        self.asked.append(request.producer_id_filters)
        key, value = records.encode(ROTATED)
        known = TransactionState("t", 8, "Empty", record_key=key, record_value=value, coordinator_epoch=3)
        answered(ListTransactionsResponse(transaction_states=[known] if 7 in request.producer_id_filters else []))


def test_coordinators_are_asked_once_and_only_about_the_producers() -> None:
    """A coordinator may know a million ids: a list of all of them keeps two brokers busy for seconds."""

    async def scenario() -> None:
        asking = Asking()
        assert await asking.owners(5) == {}
        assert (await asking.owners(7))[7] == Owner(ROTATED, 3)
        assert asking.asked == [[5], [7]]

    asyncio.run(scenario())


def test_no_question_has_more_producers_than_a_broker_answers() -> None:
    """A request with more elements is refused, and the question would be asked again for ever."""

    async def scenario() -> None:
        asking = Asking()
        producer_ids = range(at_once_elements(ApiKey.LIST_TRANSACTIONS) + 1)
        assert (await asking.owners(*producer_ids))[7] == Owner(ROTATED, 3)
        assert all(len(asked) < at_once_elements(ApiKey.LIST_TRANSACTIONS) for asked in asking.asked)
        assert [producer_id for asked in asking.asked for producer_id in asked] == list(producer_ids)

    asyncio.run(scenario())
