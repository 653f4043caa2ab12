"""InitProducerId (versions 0-5): assigns a producer id and epoch.

Ids are taken from blocks that were claimed in the metadata store, so no id is assigned twice, also after crashes. A
producer without a transactional id gets a new id for every request, with epoch 0. For a transactional id its
coordinator decides: it ends the open transaction of the previous producer, and returns the same id with the next epoch,
which fences the previous producer.

While no block can be claimed, the error is COORDINATOR_LOAD_IN_PROGRESS, as in Kafka: clients then send the request
again, and some of them give up after any other error.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from typing import Any

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.errors import ErrorCode, StorageError
from semel.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

logger = logging.getLogger("semel.broker")


def init_producer_id(
    node: Node, request: Request, message: InitProducerIdRequest
) -> InitProducerIdResponse | Coroutine[Any, Any, InitProducerIdResponse | None] | None:
    transactional_id = message.transactional_id
    if transactional_id == "" or (message.producer_id is None) != (message.producer_epoch is None):
        return InitProducerIdResponse(error_code=ErrorCode.INVALID_REQUEST)
    if transactional_id is not None:
        from semel.broker.coordinators.transactional_init import (
            init_transactional,  # Most producers have no transactional id.
        )

        return init_transactional(node, request, message, transactional_id)
    producer_id = node.producer_ids.next()
    return _claim(node) if producer_id is None else _new_producer(producer_id)


async def _claim(node: Node) -> InitProducerIdResponse:
    try:
        producer_id = await node.producer_ids.claim()
    except StorageError as error:
        logger.error("no producer ids could be claimed: %s", error)
        return InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    return _new_producer(producer_id)


def _new_producer(producer_id: int) -> InitProducerIdResponse:
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
