"""Reconciliation: ends transactions that are open on a partition although their coordinator does not know them as open.

Records of coordinators are always synced, data only with ``flush=commit``. With ``flush=os`` a power cut may take a
marker from a data partition although the transaction is complete, and its records would stay undecided for ever. The
unclean election of a replica that lacks the marker has the same effect. If such a transaction is its producer's last,
it gets the outcome that its coordinator has recorded. The outcomes of earlier transactions are no longer recorded; such
a transaction is aborted. Either way a line is logged.

This is done at the beginning of every term of leadership, after a start and later in a cluster, because the leader does
not know how it became the leader (an election may have been unclean). It waits until all shards of
``__transaction_state`` that are led here have been loaded, and all coordinators on other brokers have answered. If a
shard could not be loaded, no transaction is ended; in a cluster the coordinators are asked again until another broker
leads that shard. Nor is one ended whose producer the coordinator has admitted to the partition since the term began:
its records belong to a transaction that the coordinator knows.

If a transaction is decided and its markers are under way, the coordinator is asked about it again until the transaction
is complete: a coordinator does not send a marker again that this partition had acknowledged before the marker was lost.

There may be tens of thousands of such transactions after an unclean election. So all this is done in slices, and each
slice looks again whether the term goes on and the transaction is still open.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator, Iterable, Mapping
from typing import Final, TypeAlias, TypeVar

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

T = TypeVar("T")

Suspects: TypeAlias = list[tuple[Partition, OpenTransaction]]
Steps: TypeAlias = Generator[None, None, T]

ASK_AGAIN_S: Final = 1.0
LOOKED_AT_PER_TURN: Final = 1000
"""How many transactions are looked at in one turn of the event loop: at most some 10 us each."""
ENDED_PER_TURN: Final = 100
"""How many transactions at most are ended in one turn of the event loop: some 100 us each."""

# The transaction version of the marker. Below 2, its epoch need not be higher than that of the transaction it ends.
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

    def look_at(self, partitions: Iterable[Partition]) -> None:
        """Check the transactions that are open now on partitions whose terms begin. Transactions that are opened later
        are known to their coordinators."""
        self._suspects += (
            (partition, opened) for partition in partitions for opened in partition.log.producers.open_transactions
        )
        self.go_on_if_all_loaded()

    def stop(self) -> None:
        if self._asking is not None:
            self._asking.cancel()

    def go_on_if_all_loaded(self) -> None:
        if not self._suspects or self._asking is not None:
            return
        refusals = {runtime.refusal for runtime in self._transactions} - {None}
        if ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in refusals:
            return
        if self._node.peers is not None:
            # A shard that could not be loaded here may be led by another broker, now or later.
            remote = RemoteTransactions(self._node, self._node.peers, self._loop)
            self._asking = self._loop.create_task(self._ask_until_none_is_left(remote))
        elif refusals or self._transactions.has_broken_shards:
            self._suspects = []
            logger.warning("open transactions are not compared with their coordinators: not all could be loaded")
        elif self._transactions.all_led_shards_loaded:
            self._asking = self._loop.create_task(self._ask_until_none_is_left(None))

    async def _ask_until_none_is_left(self, remote: RemoteTransactions | None) -> None:
        """Ask the coordinators until no transaction is left to check; those of terms that begin meanwhile are checked
        together, afterwards."""
        try:
            while self._suspects:
                suspects, self._suspects = self._suspects, []
                suspects = await self._in_slices(self._still_open(suspects))
                if not suspects:
                    continue
                if remote is not None:
                    decided = await self._ask_all(suspects, remote)
                    if decided:
                        await asyncio.sleep(ASK_AGAIN_S)
                        self._suspects += decided
                elif not await self._compare_here(suspects):
                    self._suspects += suspects
                    break
        except Exception:
            logger.exception("open transactions could not be compared with their coordinators")
        finally:
            self._asking = None
        self.go_on_if_all_loaded()

    async def _compare_here(self, suspects: Suspects) -> bool:
        """Compare with the coordinators of this broker, which leads all shards. Returns whether these were complete."""
        owners = await self._owners(_producer_ids(suspects))
        if owners is not None:
            await self._end_unknown(suspects, owners)
        return owners is not None

    async def _ask_all(self, suspects: Suspects, remote: RemoteTransactions) -> Suspects:
        return await self._end_unknown(suspects, await remote.owners(_producer_ids(suspects), self._owners))

    async def _owners(self, producer_ids: frozenset[int]) -> dict[int, Owner] | None:
        """Return the owners of producer ids in the shards that this broker leads.

        Returns ``None`` if not all of these were loaded during the whole search.
        """
        return await self._in_slices(self._search(producer_ids))

    async def _end_unknown(self, suspects: Suspects, owners: Mapping[int, Owner]) -> Suspects:
        """End the transactions that their coordinators do not know as open. Returns those that are decided and whose
        markers are under way."""
        return await self._in_slices(self._ending(suspects, owners))

    async def _in_slices(self, steps: Steps[T]) -> T:
        return await self._node.turns.run(steps, elements=LOOKED_AT_PER_TURN)

    def _still_open(self, suspects: Suspects) -> Steps[Suspects]:
        found: Suspects = []
        for number, (partition, opened) in enumerate(suspects, 1):
            if self._is_still_open(partition, opened):
                found.append((partition, opened))
            if number % LOOKED_AT_PER_TURN == 0:
                yield
        return found

    def _is_still_open(self, partition: Partition, opened: OpenTransaction) -> bool:
        """Whether the transaction is still open, on a partition whose term has not ended. A later term checks its open
        transactions itself."""
        is_led = self._node.partitions.get(*partition.topic_partition) is partition
        return is_led and partition.log.producers.open_transaction_at(opened.first_offset) == opened

    def _search(self, producer_ids: frozenset[int]) -> Steps[dict[int, Owner] | None]:
        transactions = self._transactions
        runtimes = list(transactions)
        if not transactions.all_led_shards_loaded:
            return None
        # A transactional id may have had the producer id until its epochs were exhausted.
        filters = ListFilters(producer_ids=producer_ids, with_last_producer_id=True)
        owners: dict[int, Owner] = {}
        for runtime in runtimes:
            shard = runtime.shard
            for number, transactional_id in enumerate(list(shard.candidate_ids(filters)), 1):
                transaction = shard.get(transactional_id)
                if transaction is not None:
                    add_owner(owners, Owner(transaction, shard.coordinator_epoch))
                if number % LOOKED_AT_PER_TURN == 0:
                    yield
            yield
        return owners if list(transactions) == runtimes and transactions.all_led_shards_loaded else None

    def _ending(self, suspects: Suspects, owners: Mapping[int, Owner]) -> Steps[Suspects]:
        decided: Suspects = []
        ended = 0
        for number, (partition, opened) in enumerate(suspects, 1):
            if self._is_still_open(partition, opened):
                owner = owners.get(opened.producer_id)
                if _has_markers_under_way(owner, partition.topic_partition):
                    decided.append((partition, opened))
                elif not _is_known_as_open(owner, partition.topic_partition, opened) and not partition.gate.knows(
                    opened.producer_id
                ):
                    self._end(partition, opened, owner)
                    ended += 1
            if ended == ENDED_PER_TURN or number % LOOKED_AT_PER_TURN == 0:
                ended = 0
                yield
        return decided

    def _end(self, partition: Partition, opened: OpenTransaction, owner: Owner | None) -> None:
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


def _has_markers_under_way(owner: Owner | None, topic_partition: TopicPartition) -> bool:
    return owner is not None and owner.transaction.state in PREPARED and topic_partition in owner.transaction.partitions


def _is_known_as_open(owner: Owner | None, topic_partition: TopicPartition, opened: OpenTransaction) -> bool:
    return (
        owner is not None
        and owner.transaction.state is TxnState.ONGOING
        and owner.transaction.producer_epoch == opened.producer_epoch
        and topic_partition in owner.transaction.partitions
    )


def _is_last_committed(transaction: Transaction, opened: OpenTransaction) -> bool:
    """Whether this is the producer's last transaction, and was committed.

    With transactions V2 the epoch identifies the transaction. Before V2 all transactions of a producer share one epoch,
    and only the timestamps of the records can be compared.
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
