"""A transaction shard with the runtime that every test needs: records are committed at once, unless a test says when.

``crash`` throws the shard away and loads another one from the bytes of the log, as a restart or a failover does.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from semel.coordinator.moment import Moment
from semel.coordinator.transaction.decisions import TransactionDecision
from semel.coordinator.transaction.records import Transaction, TransactionRecord, decode, encode
from semel.coordinator.transaction.results import AddPartitionsResult, EndTxnResult, InitProducerIdResult, WriteMarkers
from semel.coordinator.transaction.settings import TransactionSettings
from semel.coordinator.transaction.shard import TransactionShard
from semel.errors import ErrorCode
from semel.types import ProducerIdentity, TopicPartition

Response = TypeVar("Response")

ID = "payments"
P0 = TopicPartition("orders", 0)
P1 = TopicPartition("orders", 1)
FIRST_PRODUCER_ID = 1000
TIMEOUT_MS = 60_000
EPOCH_LAST = 32766
"""The last epoch that a client can have."""


@dataclass
class Bench:
    settings: TransactionSettings = field(default_factory=TransactionSettings)
    make_shard: Callable[..., TransactionShard] = TransactionShard
    encode: Callable[..., tuple[bytes, bytes | None]] = encode
    decode: Callable[..., TransactionRecord | None] = decode

    def __post_init__(self) -> None:
        self.now_ms = 1_700_000_000_000
        self._set_by_ms = 0
        self.log: list[tuple[bytes, bytes | None]] = []
        self.markers: list[WriteMarkers] = []
        self.producer_ids = map(self._given_out, itertools.count(FIRST_PRODUCER_ID))
        self.last_producer_id = 0
        self.has_producer_ids = True
        self.shard = self._new_shard(coordinator_epoch=0)

    @property
    def moment(self) -> Moment:
        return Moment(self.now_ms, self.now_ms - self._set_by_ms)

    def set_clock(self, by_ms: int) -> None:
        """The wall clock is set forward, or back; no time passes."""
        self.now_ms += by_ms
        self._set_by_ms += by_ms

    # -- the runtime

    def run(self, decision: TransactionDecision[Response]) -> Response:
        self.commit(*decision.records)
        self.markers += decision.effects
        return decision.response

    def commit(self, *records: TransactionRecord) -> None:
        for record in records:
            self.log.append(self.encode(record, transaction_version=self.settings.transaction_version))
            self.shard.replay(record)

    def write_markers(self) -> list[WriteMarkers]:
        """All partitions acknowledge."""
        written, self.markers = self.markers, []
        for marker in written:
            self.run(
                self.shard.markers_written(
                    marker.transactional_id, marker.producer_id, marker.producer_epoch, now_ms=self.now_ms
                )
            )
        return written

    def crash(self) -> None:
        self.shard = self._new_shard(coordinator_epoch=self.shard.coordinator_epoch + 1)
        for key, value in self.log:
            record = self.decode(key, value)
            assert record is not None
            self.shard.replay(record)
        self.markers = list(self.shard.pending_markers())

    def _new_shard(self, *, coordinator_epoch: int) -> TransactionShard:
        return self.make_shard(
            partition=0,
            coordinator_epoch=coordinator_epoch,
            settings=self.settings,
            next_producer_id=lambda: next(self.producer_ids) if self.has_producer_ids else None,
        )

    # -- decisions, which change nothing before ``run``

    def decide_init(
        self,
        identity: ProducerIdentity | None = None,
        *,
        transactional_id: str = ID,
        timeout_ms: int = TIMEOUT_MS,
        api_version: int = 5,
    ) -> TransactionDecision[InitProducerIdResult]:
        needed = self.shard.needs_producer_id(transactional_id, for_init=True)
        return self.shard.init_producer_id(
            transactional_id,
            timeout_ms,
            identity.producer_id if identity else None,
            identity.producer_epoch if identity else None,
            new_producer_id=next(self.producer_ids) if needed else None,
            api_version=api_version,
            now_ms=self.now_ms,
        )

    def decide_add(
        self,
        identity: ProducerIdentity,
        *partitions: TopicPartition,
        verify_only: bool = False,
        version: int = 2,
        transactional_id: str = ID,
    ) -> TransactionDecision[AddPartitionsResult]:
        return self.shard.add_partitions(
            transactional_id,
            *identity,
            partitions,
            verify_only=verify_only,
            transaction_version=version,
            now_ms=self.now_ms,
        )

    def decide_end(
        self, identity: ProducerIdentity, *, committed: bool, version: int = 2, transactional_id: str = ID
    ) -> TransactionDecision[EndTxnResult]:
        needed = version >= 2 and self.shard.needs_producer_id(transactional_id, for_init=False)
        return self.shard.end_txn(
            transactional_id,
            *identity,
            committed,
            transaction_version=version,
            new_producer_id=next(self.producer_ids) if needed else None,
            now_ms=self.now_ms,
        )

    # -- what a producer does

    def init(self, identity: ProducerIdentity | None = None, *, timeout_ms: int = TIMEOUT_MS) -> ProducerIdentity:
        result = self.run(self.decide_init(identity, timeout_ms=timeout_ms))
        assert result.error is ErrorCode.NONE, result
        return identity_of(result)

    def add(self, identity: ProducerIdentity, *partitions: TopicPartition, version: int = 2) -> None:
        result = self.run(self.decide_add(identity, *partitions, version=version))
        assert result == AddPartitionsResult(), result

    def end(self, identity: ProducerIdentity, *, committed: bool, version: int = 2) -> ProducerIdentity:
        """What the producer goes on with."""
        result = self.run(self.decide_end(identity, committed=committed, version=version))
        assert result.error is ErrorCode.NONE, result
        return identity_of(result) if version >= 2 else identity

    def transact(self, identity: ProducerIdentity, *, committed: bool, version: int = 2) -> ProducerIdentity:
        """A whole transaction over both partitions."""
        self.add(identity, P0, P1, version=version)
        after = self.end(identity, committed=committed, version=version)
        self.write_markers()
        return after

    def init_error(self, identity: ProducerIdentity | None = None, *, api_version: int = 5) -> ErrorCode:
        """Refused, and nothing changed."""
        decision = self.decide_init(identity, api_version=api_version)
        assert decision.records == ()
        assert decision.effects == ()
        return decision.response.error

    def add_error(self, identity: ProducerIdentity, *partitions: TopicPartition) -> ErrorCode:
        decision = self.decide_add(identity, *(partitions or (P0,)))
        assert decision.records == ()
        return decision.response.error

    def end_error(self, identity: ProducerIdentity, *, committed: bool, version: int = 2) -> ErrorCode:
        decision = self.decide_end(identity, committed=committed, version=version)
        assert decision.records == ()
        assert decision.effects == ()
        return decision.response.error

    @property
    def transaction(self) -> Transaction:
        transaction = self.shard.get(ID)
        assert transaction is not None
        return transaction

    def at_epoch(self, producer_epoch: int, *, transactional_id: str = ID) -> ProducerIdentity:
        """The producer as it is after that many bumps."""
        transaction = self.shard.get(transactional_id)
        assert transaction is not None
        self.commit(transaction._replace(producer_epoch=producer_epoch, last_producer_epoch=None))
        return ProducerIdentity(transaction.producer_id, producer_epoch)

    def _given_out(self, producer_id: int) -> int:
        self.last_producer_id = producer_id
        return producer_id


def identity_of(result: InitProducerIdResult | EndTxnResult) -> ProducerIdentity:
    assert result.producer_id is not None
    assert result.producer_epoch is not None
    return ProducerIdentity(result.producer_id, result.producer_epoch)
