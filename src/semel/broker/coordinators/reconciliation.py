"""Reconciliation after a start: transactions that are open on a partition and not at their coordinator are ended.

What coordinators write is always synced, data only with ``flush=commit``. With ``flush=os`` a power cut may take a
marker from a data partition although the transaction is complete, and its records would stay undecided for ever. Such a
transaction gets the outcome that is recorded for it, if it is its producer's last; of any earlier one nothing is
recorded any more, and it is aborted. Either way a line in the log says so.

This is done once, when all shards of ``__transaction_state`` that are here have been loaded, and all coordinators on
other brokers have answered. What is in doubt (a shard could not be loaded) is left alone, and so is a producer that the
coordinator has let in since the start: what it writes belongs to a transaction that the coordinator knows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, TypeAlias

from semel.broker.coordinators.coordinator import Coordinator
from semel.broker.coordinators.markers import MarkerDelivery
from semel.broker.coordinators.remote_transactions import Owner, RemoteTransactions, add_owner
from semel.broker.node import Node
from semel.broker.partitions.partitions import Partition
from semel.coordinator.transaction.listing import ListFilters
from semel.coordinator.transaction.records import Transaction
from semel.coordinator.transaction.results import WriteMarkers
from semel.coordinator.transaction.shard import TransactionShard
from semel.coordinator.transaction.states import PREPARED, TxnState
from semel.errors import ErrorCode
from semel.log.producers.producer_state import OpenTransaction
from semel.types import TopicPartition

logger = logging.getLogger("semel.broker")

Suspects: TypeAlias = list[tuple[Partition, OpenTransaction]]

# Of the marker: its epoch need not be higher than that of what it ends.
_ANY_EPOCH: Final = 1


class Reconciliation:
    def __init__(
        self, node: Node, transactions: Coordinator[TransactionShard], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._node = node
        self._transactions = transactions
        self._loop = loop
        self._suspects: Suspects = []
        self._asking: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """All shards are here, if not all are loaded. What is open now is looked at; whatever is opened later is opened
        with the coordinator's knowledge."""
        self._suspects = [
            (partition, opened)
            for partition in self._node.partitions
            for opened in partition.log.producers.open_transactions
        ]
        self.go_on_if_all_loaded()

    def stop(self) -> None:
        if self._asking is not None:
            self._asking.cancel()

    def go_on_if_all_loaded(self) -> None:
        refusals = {runtime.refusal for runtime in self._transactions} - {None}
        if not self._suspects or ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in refusals:
            return
        suspects, self._suspects = self._suspects, []
        if refusals or self._transactions.has_broken_shards:
            logger.warning("open transactions are not compared with their coordinators: not all could be loaded")
            return
        if self._node.peers is None:
            self._end_unknown(suspects, self._owners(_producer_ids(suspects)))
        else:
            remote = RemoteTransactions(self._node, self._node.peers, self._loop)
            self._asking = self._loop.create_task(self._ask_all(suspects, remote))

    async def _ask_all(self, suspects: Suspects, remote: RemoteTransactions) -> None:
        try:
            owners = await remote.owners(_producer_ids(suspects), self._search)
            self._end_unknown(suspects, owners)
        except Exception:
            logger.exception("open transactions could not be compared with their coordinators")

    def _end_unknown(self, suspects: Suspects, owners: Mapping[int, Owner]) -> None:
        for partition, opened in suspects:
            owner = owners.get(opened.producer_id)
            if not _is_known_as_open(owner, partition.topic_partition, opened):
                self._end(partition, opened, owner)

    def _owners(self, producer_ids: frozenset[int]) -> dict[int, Owner]:
        owners = self._search(ListFilters(producer_ids=producer_ids))
        if producer_ids <= owners.keys():
            return owners
        # A transactional id may have had it until its epochs were exhausted. Only a look at all of them tells.
        return self._search(ListFilters())

    def _search(self, filters: ListFilters) -> dict[int, Owner]:
        """Of the shards that are here."""
        owners: dict[int, Owner] = {}
        for runtime in self._transactions:
            shard = runtime.shard
            for listed in shard.list(filters, now_ms=self._node.clock.now_ms()).transactions:
                transaction = shard.get(listed.transactional_id)
                assert transaction is not None
                add_owner(owners, Owner(transaction, shard.coordinator_epoch))
        return owners

    def _end(self, partition: Partition, opened: OpenTransaction, owner: Owner | None) -> None:
        if self._node.partitions.get(*partition.topic_partition) is not partition:
            return  # The term is over. The next one begins with a look of its own, or without a restart.
        if opened not in partition.log.producers.open_transactions:
            return  # Its end has come meanwhile.
        if partition.gate.knows(opened.producer_id):
            return
        committed = owner is not None and _is_last_committed(owner.transaction, opened)
        epoch, coordinator_epoch = opened.producer_epoch, partition.log.producers.coordinator_epoch(opened.producer_id)
        if owner is not None:
            coordinator_epoch = owner.coordinator_epoch
            if owner.transaction.producer_id == opened.producer_id:
                epoch = max(epoch, owner.transaction.producer_epoch)
        logger.warning(
            "%s: a transaction of producer %d from offset %d on that its coordinator (%s) does not know as open: %s",
            partition.topic_partition,
            opened.producer_id,
            opened.first_offset,
            "none has this producer" if owner is None else owner.transaction.transactional_id,
            "it was committed" if committed else "it is aborted",
        )
        effect = WriteMarkers(
            transactional_id="" if owner is None else owner.transaction.transactional_id,
            producer_id=opened.producer_id,
            producer_epoch=epoch,
            committed=committed,
            partitions=frozenset({partition.topic_partition}),
            coordinator_epoch=coordinator_epoch or 0,
            transaction_version=_ANY_EPOCH,
        )
        node, topic_partition = self._node, partition.topic_partition
        MarkerDelivery(
            node,
            effect,
            wanted=lambda: node.partitions.get(*topic_partition) is partition,
            finished=lambda: None,
        ).begin()


def _producer_ids(suspects: Suspects) -> frozenset[int]:
    return frozenset(opened.producer_id for _, opened in suspects)


def _is_known_as_open(owner: Owner | None, topic_partition: TopicPartition, opened: OpenTransaction) -> bool:
    if owner is None or topic_partition not in owner.transaction.partitions:
        return False
    transaction = owner.transaction
    # Of what is decided, the markers are under way.
    return transaction.state in PREPARED or (
        transaction.state is TxnState.ONGOING and transaction.producer_epoch == opened.producer_epoch
    )


def _is_last_committed(transaction: Transaction, opened: OpenTransaction) -> bool:
    """Whether this is the producer's last transaction, and was committed.

    With transactions V2 the epoch says so. Before, all transactions of a producer share one, and only the time of the
    records is left to go by.
    """
    if transaction.state is not TxnState.COMPLETE_COMMIT:
        return False
    if transaction.client_transaction_version >= 2:
        return transaction.last_producer_epoch == opened.producer_epoch
    return (
        transaction.producer_epoch == opened.producer_epoch
        and transaction.started_ms is not None
        and opened.last_timestamp >= transaction.started_ms
    )
