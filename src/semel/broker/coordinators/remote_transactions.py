"""Asks all transaction coordinators of a cluster which transactional ids have some producer ids.

This is done when terms of leadership begin (``reconciliation``). The law: the result is complete. For each partition of
``__transaction_state`` the broker that leads it has answered, with the partition loaded, and no partition has changed
its leader or term meanwhile; otherwise all are asked again. So a transaction of a producer that is not in the result is
known to no coordinator, and may be ended.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Final, NamedTuple, TypeAlias

from semel.broker.cluster.peers import Peers, Purpose
from semel.broker.node import Node
from semel.coordinator.transaction import records
from semel.coordinator.transaction.records import Transaction
from semel.errors import DecodeError, ErrorCode, StorageError
from semel.types import TRANSACTION_STATE_TOPIC
from semel.wire.apis import ApiKey
from semel.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

logger = logging.getLogger("semel.broker")

PAUSE_S_MIN: Final = 0.1
PAUSE_S_MAX: Final = 5.0
# A broker answers a request with ten times as many elements. One partition may have 120,000 producers in transactions.
PRODUCERS_PER_REQUEST: Final = 1000


class Owner(NamedTuple):
    """The transaction of the transactional id that has a producer id, or had it in the record before, and the epoch of
    its coordinator."""

    transaction: Transaction
    coordinator_epoch: int


def add_owner(owners: dict[int, Owner], owner: Owner) -> None:
    if owner.transaction.last_producer_id is not None:
        owners.setdefault(owner.transaction.last_producer_id, owner)
    owners[owner.transaction.producer_id] = owner


Search: TypeAlias = Callable[[frozenset[int]], Awaitable[dict[int, Owner] | None]]
"""Searches the shards of this broker for the owners of producer ids. The result is None if not all were loaded."""


class _NotComplete(Exception):
    """A coordinator did not answer, or cannot answer yet, or has moved."""


class RemoteTransactions:
    def __init__(self, node: Node, peers: Peers, loop: asyncio.AbstractEventLoop) -> None:
        self._node = node
        self._peers = peers
        self._loop = loop

    async def owners(self, producer_ids: frozenset[int], search_here: Search) -> dict[int, Owner]:
        """Return the owners of these producer ids. Asks again until the result is complete."""
        pause_s = PAUSE_S_MIN
        while True:
            try:
                return await self._ask_all(producer_ids, search_here)
            except (_NotComplete, StorageError) as reason:
                logger.info("open transactions are compared with their coordinators later: %s", reason)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S_MAX)

    async def _ask_all(self, producer_ids: frozenset[int], search_here: Search) -> dict[int, Owner]:
        await self._node.cluster.refresh()
        terms = self._terms()
        owners: dict[int, Owner] = {}
        for leader in dict.fromkeys(leader for leader, _ in terms):
            if leader is None:
                raise _NotComplete(f"a partition of {TRANSACTION_STATE_TOPIC} has no leader")
            if leader != self._node.config.node_id:
                for some in _slices(sorted(producer_ids)):
                    for owner in await self._ask(leader, some):
                        add_owner(owners, owner)
        here = await search_here(producer_ids)
        await self._node.cluster.refresh()
        if here is None or self._terms() != terms or not self._node.coordinators.transactions.all_led_shards_loaded:
            raise _NotComplete("coordinators have moved meanwhile")
        for owner in here.values():
            add_owner(owners, owner)
        return owners

    def _terms(self) -> list[tuple[int | None, int]]:
        topic = self._node.image.topics.get(TRANSACTION_STATE_TOPIC)
        return [] if topic is None else [(state.leader, state.leader_epoch) for state in topic.partitions]

    async def _ask(self, node_id: int, producer_ids: list[int]) -> list[Owner]:
        answer: asyncio.Future[ListTransactionsResponse | None] = self._loop.create_future()

        def answered(response: ListTransactionsResponse | None) -> None:
            if not answer.done():
                answer.set_result(response)

        request = ListTransactionsRequest(producer_id_filters=producer_ids)
        self._peers.ask(node_id, Purpose.QUESTIONS, ApiKey.LIST_TRANSACTIONS, request, answered)
        response = await answer
        if response is None:
            raise _NotComplete(f"broker {node_id} does not answer")
        if response.error_code:
            raise _NotComplete(f"broker {node_id} answers {ErrorCode(response.error_code).name}")
        try:
            known = [
                (records.decode(listed.record_key, listed.record_value), listed.coordinator_epoch)
                for listed in response.transaction_states
            ]
        except DecodeError as error:
            raise _NotComplete(f"broker {node_id} answers what cannot be read: {error}") from None
        return [Owner(record, epoch) for record, epoch in known if isinstance(record, Transaction)]


def _slices(producer_ids: list[int]) -> Iterator[list[int]]:
    for start in range(0, len(producer_ids), PRODUCERS_PER_REQUEST):
        yield producer_ids[start : start + PRODUCERS_PER_REQUEST]
