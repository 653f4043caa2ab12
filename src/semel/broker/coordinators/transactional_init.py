"""InitProducerId for a transactional id: decided by its coordinator, which may need a new producer id."""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from typing import Any

from semel.broker.coordinators.new_producer_id import NewProducerId
from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.coordinator.decision import Waiter
from semel.coordinator.transaction.decisions import TransactionDecision
from semel.coordinator.transaction.results import InitProducerIdResult
from semel.coordinator.transaction.shard import TransactionShard
from semel.errors import StorageError
from semel.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

logger = logging.getLogger("semel.broker")


def init_transactional(
    node: Node, request: Request, message: InitProducerIdRequest, transactional_id: str
) -> Coroutine[Any, Any, None] | None:
    """Let the coordinator answer the request. Returns a coroutine if a producer id must be claimed first, else None."""
    producer_id = None
    if _needs_producer_id(node, transactional_id):
        producer_id = node.producer_ids.next()
        if producer_id is None:
            return _claim(node, request, message, transactional_id)
    _ask(node, request, message, transactional_id, producer_id)
    return None


async def _claim(node: Node, request: Request, message: InitProducerIdRequest, transactional_id: str) -> None:
    producer_id = None
    try:
        producer_id = await node.producer_ids.claim()
    except StorageError as error:
        logger.error("no producer ids could be claimed: %s", error)  # The shard refuses the request.
    _ask(node, request, message, transactional_id, producer_id)


def _needs_producer_id(node: Node, transactional_id: str) -> bool:
    """Whether the coordinator is on this broker and needs a new producer id for this request."""
    transactions = node.coordinators.transactions
    runtime = transactions.runtime(transactions.partition_for(transactional_id))
    if runtime is None or runtime.refusal is not None:
        return False
    return runtime.shard.needs_producer_id(transactional_id, for_init=True)


def _ask(
    node: Node, request: Request, message: InitProducerIdRequest, transactional_id: str, producer_id: int | None
) -> None:
    new_producer_id = NewProducerId(node.producer_ids, producer_id)

    def decide(shard: TransactionShard) -> TransactionDecision[InitProducerIdResult]:
        return shard.init_producer_id(
            transactional_id,
            message.transaction_timeout_ms,
            message.producer_id,
            message.producer_epoch,
            new_producer_id=new_producer_id.if_needed(shard, transactional_id, for_init=True),
            api_version=request.version,
            now_ms=node.clock.now_ms(),
        )

    def respond(result: InitProducerIdResult) -> None:
        response = InitProducerIdResponse(
            error_code=result.error,
            producer_id=result.producer_id,
            producer_epoch=result.producer_epoch,
        )
        request.answer_delayed(lambda: response)

    request.hold_until_answered(
        node.coordinators.transactions.run(transactional_id, decide, Waiter(respond, InitProducerIdResult))
    )
