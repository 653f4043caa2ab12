"""ListTransactions (versions 0-2): the transactions that this broker coordinates, filtered (KIP-664, KIP-994)."""

from __future__ import annotations

from typing import Final

from semel.broker.every_shard import of_each_shard
from semel.broker.node import Node
from semel.broker.request import Request
from semel.coordinator.decision import Decision
from semel.coordinator.transaction.listing import ListFilters, listing
from semel.coordinator.transaction.results import TransactionListing
from semel.errors import ErrorCode
from semel.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse, TransactionState

_NO_FILTER: Final = -1


async def list_transactions(node: Node, request: Request, message: ListTransactionsRequest) -> ListTransactionsResponse:
    filters = ListFilters(
        states=tuple(message.state_filters),
        producer_ids=frozenset(message.producer_id_filters),
        duration_ms=None if message.duration_filter == _NO_FILTER else message.duration_filter,
        pattern=message.transactional_id_pattern or None,
    )
    # Of nothing first: it says what is wrong with the filters, also where there is no shard.
    of_nothing = listing((), filters, now_ms=0)
    if of_nothing.error is not ErrorCode.NONE:
        return _merged([of_nothing])
    listings = await of_each_shard(
        node.coordinators.transactions, lambda shard: Decision(shard.list(filters, now_ms=node.clock.now_ms()))
    )
    return _merged([of_nothing, *listings])


def _merged(listings: list[TransactionListing | ErrorCode]) -> ListTransactionsResponse:
    """One shard that cannot say yet makes the whole list wrong, so then there is none. What is lost is left out."""
    response = ListTransactionsResponse()
    for found in listings:
        if found is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return ListTransactionsResponse(error_code=found)
        if isinstance(found, ErrorCode):
            continue
        if found.error is not ErrorCode.NONE:
            return ListTransactionsResponse(error_code=found.error)
        response.unknown_state_filters = list(found.unknown_states)
        response.transaction_states += (
            TransactionState(listed.transactional_id, listed.producer_id, listed.state.kafka_name)
            for listed in found.transactions
        )
    return response
