"""EndTxn (versions 0-5): commits or aborts a transaction.

The response is sent when the decision is on disk and the markers are in the partitions of this broker. From version 5
on (transactions V2) every end bumps the producer's epoch, and the response has the producer id and epoch for the next
transaction.
"""

from __future__ import annotations

from typing import Final

from semel.broker.coordinators.new_producer_id import NewProducerId
from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.coordinator.decision import Waiter
from semel.coordinator.transaction.decisions import TransactionDecision
from semel.coordinator.transaction.results import EndTxnResult, error_for_version
from semel.coordinator.transaction.shard import TransactionShard
from semel.wire.apis import ApiKey
from semel.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

V2_SINCE: Final = 5


def end_txn(node: Node, request: Request, message: EndTxnRequest) -> None:
    new_producer_id = NewProducerId(node.producer_ids)
    is_v2 = request.version >= V2_SINCE

    def decide(shard: TransactionShard) -> TransactionDecision[EndTxnResult]:
        return shard.end_txn(
            message.transactional_id,
            message.producer_id,
            message.producer_epoch,
            message.committed,
            transaction_version=2 if is_v2 else 0,
            new_producer_id=new_producer_id.if_needed(shard, message.transactional_id, for_init=False)
            if is_v2
            else None,
            now_ms=node.clock.now_ms(),
        )

    def respond(result: EndTxnResult) -> None:
        response = EndTxnResponse(
            error_code=error_for_version(result.error, ApiKey.END_TXN, request.version),
            producer_id=result.producer_id,
            producer_epoch=result.producer_epoch,
        )
        request.answer_delayed(lambda: response)

    request.hold_until_answered(
        node.coordinators.transactions.run(message.transactional_id, decide, Waiter(respond, EndTxnResult))
    )
