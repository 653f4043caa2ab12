"""How the two kinds of shards read and write their partitions: between the runtime and the pure coordinators."""

from __future__ import annotations

from dataclasses import dataclass

from semel.coordinator.group import records as group_records
from semel.coordinator.group.records import GroupRecord
from semel.coordinator.group.shard import GroupShard
from semel.coordinator.transaction import records as transaction_records
from semel.coordinator.transaction.records import TransactionRecord
from semel.coordinator.transaction.shard import TransactionShard
from semel.types import ProducerIdentity


@dataclass(frozen=True, slots=True)
class TransactionFormat:
    """Of ``__transaction_state``. What is written depends on the cluster's ``transaction.version``."""

    transaction_version: int

    def encode(self, record: TransactionRecord) -> tuple[bytes, bytes | None]:
        return transaction_records.encode(record, transaction_version=self.transaction_version)

    def decode(self, key: bytes | None, value: bytes | None) -> TransactionRecord | None:
        return transaction_records.decode_to_load(key, value)

    def replay(
        self,
        shard: TransactionShard,
        record: TransactionRecord,
        offset: int,
        producer: ProducerIdentity | None,
    ) -> None:
        shard.replay(record)

    def replay_marker(self, shard: TransactionShard, producer: ProducerIdentity, *, committed: bool) -> None:
        """Nobody writes to this topic in a transaction."""


class GroupFormat:
    """Of ``__consumer_offsets``. A record in a transaction counts when the marker comes."""

    def encode(self, record: GroupRecord) -> tuple[bytes, bytes | None]:
        return group_records.encode(record)

    def decode(self, key: bytes | None, value: bytes | None) -> GroupRecord | None:
        return group_records.decode(key, value)

    def replay(self, shard: GroupShard, record: GroupRecord, offset: int, producer: ProducerIdentity | None) -> None:
        if producer is None:
            shard.replay(record, offset=offset)
        else:
            shard.replay(
                record, offset=offset, producer_id=producer.producer_id, producer_epoch=producer.producer_epoch
            )

    def replay_marker(self, shard: GroupShard, producer: ProducerIdentity, *, committed: bool) -> None:
        shard.replay_marker(producer.producer_id, producer.producer_epoch, committed)
