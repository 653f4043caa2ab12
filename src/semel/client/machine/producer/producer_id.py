"""The identity of an idempotent producer without transactions: requested once, then bumped without a request.

A broker gives every such producer a new id with epoch 0, and sees its later epochs only in batches. So the producer may
increase the epoch itself (KIP-360), and requests a new id when the epochs are used up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random
from typing import Any, Final

from semel.client.config.common import ClientConfig
from semel.client.machine.connection.calls import Call
from semel.client.machine.connection.connections import Connections
from semel.client.machine.connection.retry import Retry
from semel.client.machine.producer.sequences import Identity
from semel.clock import NEVER
from semel.errors import ErrorCode, Family, FatalError, client_error, family_of
from semel.types import INT32_MAX, TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.init_producer_id import InitProducerIdRequest

log = logging.getLogger(__name__)

EPOCH_MAX: Final = 2**15 - 1


class ProducerId:
    transaction_version = None

    def __init__(
        self, config: ClientConfig, connections: Connections, random: Random, *, fatal: Callable[[Exception], None]
    ) -> None:
        self._connections = connections
        self._fatal = fatal
        self._retry = Retry.of(config, random)
        self._identity: Identity | None = None
        self._asking = False

    # Numbering

    def identity(self) -> Identity | None:
        return self._identity

    def may_send(self, topic_partition: TopicPartition) -> bool:
        return True

    def sent(self) -> None:
        pass

    def failed(self, error: Exception, *, was_numbered: bool) -> None:
        if isinstance(error, FatalError):
            self._fatal(error)

    def unresolved(self, topic_partition: TopicPartition, reason: str) -> None:
        """Bump the epoch: the broker then accepts sequence 0 again, and nothing of the old epoch any more."""
        if self._identity is None:
            return
        producer_id, epoch = self._identity
        self._identity = Identity(producer_id, epoch + 1) if epoch < EPOCH_MAX else None
        log.warning(
            "producer %d goes on %s, because of %s: %s",
            producer_id,
            f"with epoch {epoch + 1}" if epoch < EPOCH_MAX else "under a new id",
            topic_partition,
            reason,
        )

    # Asking for an id

    def poll(self, now_ms: float) -> None:
        if self._identity is not None or self._asking or not self._retry.is_due(now_ms):
            return
        route = self._connections.least_loaded(now_ms)
        if route is not None:
            self._asking = True
            call = Call(ApiKey.INIT_PRODUCER_ID, build=_request, answered=self._answered, lost=self._lost)
            self._connections.send(route, call, now_ms)

    def next_deadline_ms(self, now_ms: float) -> float:
        return self._retry.next_deadline_ms(now_ms) if self._identity is None else NEVER

    def _answered(self, response: Any, version: int, now_ms: float) -> None:
        self._asking = False
        if response.error_code == ErrorCode.NONE:
            self._identity = Identity(response.producer_id, response.producer_epoch)
            self._retry = self._retry.succeeded()
        elif family_of(response.error_code) is Family.RETRIABLE:
            self._retry = self._retry.failed(now_ms)
        else:
            self._fatal(client_error(response.error_code, "the broker gave this producer no id", Family.FATAL))

    def _lost(self, reason: str, now_ms: float) -> None:
        self._asking = False
        self._retry = self._retry.failed(now_ms)


def _request(version: int) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=INT32_MAX)
