"""ListTransactions (versions 0-2): the transactions that this broker coordinates, filtered (KIP-664, KIP-994)."""

from __future__ import annotations

from functools import partial
from typing import Any

from semel.broker.coordinators.every_shard import ask, each_shard, slices
from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.coordinator.decision import Decision
from semel.coordinator.transaction.listing import ListFilters, listing
from semel.coordinator.transaction.results import TransactionListing
from semel.coordinator.transaction.shard import TransactionShard
from semel.errors import ErrorCode, KafkaError
from semel.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse, TransactionState


async def list_transactions(node: Node, request: Request, message: ListTransactionsRequest) -> ListTransactionsResponse:
    filters = ListFilters(
        states=tuple(message.state_filters),
        producer_ids=frozenset(message.producer_id_filters),
        with_last_producer_id=request.is_from_broker,
        duration_ms=message.duration_filter,
        pattern=message.transactional_id_pattern or None,
    )
    # An empty list first: it validates the filters, also if this broker has no shard.
    of_nothing = listing((), filters, now_ms=0)
    if of_nothing.error is not ErrorCode.NONE:
        return ListTransactionsResponse(error_code=of_nothing.error)
    response = ListTransactionsResponse(unknown_state_filters=list(of_nothing.unknown_states))
    if request.is_from_broker:
        # A broker takes a transaction that it does not find here for ended, so the list must have all transactions
        # that this broker should coordinate.
        await node.cluster.refresh()
        if not node.coordinators.transactions.all_led_shards_loaded:
            return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    async for runtime in each_shard(node.coordinators.transactions, node.turns):
        try:
            transactional_ids = await ask(runtime, lambda shard: Decision(list(shard.candidate_ids(filters))))
        except KafkaError as refusal:
            if request.is_from_broker or refusal.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                # Without the transactions of a shard that is still loading the list would be wrong, so the request is
                # refused. For a broker also if a shard has just lost its leadership: its transactions have not ended.
                return ListTransactionsResponse(error_code=refusal.code)
            continue  # For other clients the transactions of a shard that has lost its leadership are left out.
        async for some in slices(transactional_ids, node.turns):
            try:
                found = await ask(runtime, partial(_listed, node, some, filters), is_confirmed=False)
            except KafkaError:
                return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            if found.error is not ErrorCode.NONE:
                return ListTransactionsResponse(error_code=found.error)
            states = [
                TransactionState(listed.transactional_id, listed.producer_id, listed.state.kafka_name)
                for listed in found.transactions
            ]
            if request.is_from_broker:
                _add_records(runtime.shard, states)
            response.transaction_states += states
    return response


def _listed(
    node: Node, transactional_ids: list[str], filters: ListFilters, shard: TransactionShard
) -> Decision[TransactionListing, Any, Any]:
    return Decision(shard.list_some(transactional_ids, filters, now_ms=node.clock.now_ms()))


def _add_records(shard: TransactionShard, states: list[TransactionState]) -> None:
    for state in states:
        transaction = shard.get(state.transactional_id)
        if transaction is not None:
            key, value = shard.encode(transaction)
            state.record_key, state.record_value = key, value
            state.coordinator_epoch = shard.coordinator_epoch
