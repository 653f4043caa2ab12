"""InitProducerId (versions 0-5): an id for an idempotent producer.

Ids come from blocks that were claimed in the metadata store, so none is given out twice, whatever crashes. A producer
without a transactional id gets a new one every time, with epoch 0.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from semel.broker.node import Node
from semel.broker.request import Request
from semel.errors import ErrorCode
from semel.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

_NO_PRODUCER: Final = -1


def init_producer_id(
    node: Node, request: Request, message: InitProducerIdRequest
) -> InitProducerIdResponse | Coroutine[Any, Any, InitProducerIdResponse]:
    if message.transactional_id == "" or (message.producer_id == _NO_PRODUCER) != (
        message.producer_epoch == _NO_PRODUCER
    ):
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST, producer_epoch=_NO_PRODUCER)
    if message.transactional_id is not None:
        return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, producer_epoch=_NO_PRODUCER)
    producer_id = node.producer_ids.next()
    if producer_id is None:
        return _claim(node)
    return InitProducerIdResponse(producer_id=producer_id)


async def _claim(node: Node) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=await node.producer_ids.claim())
