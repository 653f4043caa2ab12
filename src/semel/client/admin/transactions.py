"""Transactions: list and describe them, find hanging ones, and abort one of these."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from semel.client.admin.admin_requests import AdminCallRequests, AdminRequests, named_broker, this_broker
from semel.client.admin.hanging import HangingTransaction, candidates, hanging
from semel.client.admin.partitions import DESCRIBE_PRODUCERS, ProducerState
from semel.client.admin.results import Results
from semel.client.admin.topics import DESCRIBE_TOPIC, LIST_TOPICS
from semel.client.machine.admin.ask import CLUSTER, Ask, Leader, Refusal, coordinator_of_transaction, outcome
from semel.client.offsets import PartitionLike, as_partition
from semel.errors import AbortableError, ErrorCode
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.describe_transactions import DescribeTransactionsRequest
from semel.wire.messages.describe_transactions import TransactionState as WireTransactionState
from semel.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from semel.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

_DURATION_SINCE: Final = 1
_PATTERN_SINCE: Final = 2

MAX_TRANSACTION_TIMEOUT_MS: Final = 15 * 60_000
"""The default of the brokers' ``transaction.max.timeout.ms``: no transaction may last longer."""


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """A transactional id and the state of its last transaction. ``broker_id`` coordinates it."""

    transactional_id: str
    producer_id: int
    state: str
    broker_id: int


@dataclass(frozen=True, slots=True)
class TransactionDescription:
    """The transaction of a transactional id.

    ``start_time_ms`` is ``None`` and ``partitions`` empty unless a transaction is open or being ended.
    """

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_time_ms: int | None
    partitions: tuple[TopicPartition, ...]


class Transactions:
    """``admin.transactions``: list and describe transactions, find hanging ones, and abort one."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    async def list(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        running_longer_than_ms: int | None = None,
        transactional_id_pattern: str | None = None,
    ) -> tuple[TransactionListing, ...]:
        """Return every transactional id, of all coordinators, by name; with filters, only those that match.

        The pattern is a regular expression (RE2) for the whole id; it needs Kafka 4.1, the duration Kafka 3.8.

        for open in await admin.transactions.list(states=["Ongoing"], running_longer_than_ms=60_000): print(open)
        """
        request = ListTransactionsRequest(
            list(states),
            list(producer_ids),
            running_longer_than_ms,
            transactional_id_pattern,
        )
        return await _listed(self._requests.begin(), request)

    async def describe(self, transactional_id: str) -> TransactionDescription:
        """Return the transaction of a transactional id; raises TRANSACTIONAL_ID_NOT_FOUND if it is unknown.

        print((await admin.transactions.describe("billing-1")).state)
        """
        return await self._requests.one(_DESCRIBE, transactional_id)

    async def describe_many(self, transactional_ids: Iterable[str]) -> Results[str, TransactionDescription]:
        """Return the transactions of many transactional ids, as ``describe`` does for one.

        results = await admin.transactions.describe_many(["billing-1", "billing-2"])
        """
        return await self._requests.many(_DESCRIBE, transactional_ids)

    async def find_hanging(
        self,
        *,
        topics: Iterable[str] | None = None,
        broker_id: int | None = None,
        max_transaction_timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS,
    ) -> tuple[HangingTransaction, ...]:
        """Return open transactions that no coordinator will end, and at which read_committed consumers wait for ever.

        Checks every partition, or those of some topics, or those that one broker leads. Give the brokers'
        ``transaction.max.timeout.ms``, if it is not the default: with less, live transactions could be among them.

        for found in await admin.transactions.find_hanging():
            await admin.transactions.abort(found.partition, start_offset=found.start_offset)
        """
        call = self._requests.begin()
        if topics is None:
            topics = [topic.name for topic in await call.one(LIST_TOPICS, CLUSTER)]
        described = (await call.many(DESCRIBE_TOPIC, topics)).all()
        partitions = [
            TopicPartition(topic.name, partition.partition)
            for topic in described.values()
            for partition in topic.partitions
            if broker_id is None or partition.leader == broker_id
        ]
        producers = (await call.many(DESCRIBE_PRODUCERS, partitions)).all()
        suspects = candidates(
            producers, now_ms=self._requests.clock.now_ms(), max_transaction_timeout_ms=max_transaction_timeout_ms
        )
        if not suspects:
            return ()
        producer_ids = sorted({state.producer_id for _, state in suspects})
        listed = await _listed(call, ListTransactionsRequest(producer_id_filters=producer_ids))
        transactional_ids = {listing.producer_id: listing.transactional_id for listing in listed}
        transactions = await call.many(_DESCRIBE, transactional_ids.values())
        for error in transactions.failed.values():
            if error.code != ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                raise error  # A transaction is not called hanging because its coordinator could not be asked.
        known_partitions = {name: transaction.partitions for name, transaction in transactions.succeeded.items()}
        return hanging(suspects, transactional_ids, known_partitions)

    async def abort(
        self,
        partition: PartitionLike,
        *,
        start_offset: int | None = None,
        producer_id: int | None = None,
        producer_epoch: int | None = None,
        coordinator_epoch: int = 0,
    ) -> None:
        """Abort one partition's open transaction: the one that begins at ``start_offset``, or that of a producer.

        This bypasses the coordinator, so it is only for transactions that hang: one that its coordinator still knows
        would be aborted here and might be committed elsewhere.

        await admin.transactions.abort(("orders", 0), start_offset=1234)
        """
        topic_partition = as_partition(partition)
        call = self._requests.begin()
        if start_offset is not None:
            if producer_id is not None or producer_epoch is not None:
                raise ValueError("abort takes either start_offset or producer_id and producer_epoch, not both")
            state = await _beginning_at(call, topic_partition, start_offset)
            producer_id, producer_epoch = state.producer_id, state.producer_epoch
            coordinator_epoch = state.coordinator_epoch or 0
        if producer_id is None or producer_epoch is None:
            raise ValueError("abort takes start_offset, or producer_id and producer_epoch: which transaction is meant")
        await call.one(_abort(producer_id, producer_epoch, coordinator_epoch), topic_partition)


async def _beginning_at(call: AdminCallRequests, partition: TopicPartition, start_offset: int) -> ProducerState:
    for state in await call.one(DESCRIBE_PRODUCERS, partition):
        if state.transaction_start_offset == start_offset:
            return state
    raise AbortableError(
        ErrorCode.INVALID_TXN_STATE, f"{partition} has no open transaction that begins at offset {start_offset}"
    )


async def _listed(call: AdminCallRequests, request: ListTransactionsRequest) -> tuple[TransactionListing, ...]:
    answers = await call.of_each_broker(_list(request))
    listings = [listing for listed in answers.values() for listing in listed]
    return tuple(sorted(listings, key=lambda listing: (listing.transactional_id, listing.broker_id)))


def _list(request: ListTransactionsRequest) -> Ask[int, list[TransactionListing]]:
    def read(
        response: ListTransactionsResponse, brokers: Sequence[int], version: int
    ) -> list[tuple[int, list[TransactionListing] | Refusal]]:
        if response.unknown_state_filters:
            unknown = ", ".join(response.unknown_state_filters)
            return [(brokers[0], Refusal(ErrorCode.INVALID_REQUEST, f"there is no state {unknown}"))]
        listings = [
            TransactionListing(state.transactional_id, state.producer_id, state.transaction_state, brokers[0])
            for state in response.transaction_states
        ]
        return [(brokers[0], outcome(listings, response.error_code))]

    version_min = None
    if request.duration_filter is not None:
        version_min = _DURATION_SINCE
    if request.transactional_id_pattern is not None:
        version_min = _PATTERN_SINCE
    return Ask(
        ApiKey.LIST_TRANSACTIONS,
        target=this_broker,
        build=lambda brokers, version: request,
        read=read,
        name=named_broker,
        is_single=True,
        version_min=version_min,
    )


def _transactional_id(name: str) -> str:
    return f"transactional id {name!r}"


def _described(state: WireTransactionState) -> TransactionDescription:
    return TransactionDescription(
        state.transactional_id,
        state.transaction_state,
        state.producer_id,
        state.producer_epoch,
        state.transaction_timeout_ms,
        state.transaction_start_time_ms,
        tuple(sorted(TopicPartition(topic.topic, index) for topic in state.topics for index in topic.partitions)),
    )


_DESCRIBE: Ask[str, TransactionDescription] = Ask(
    ApiKey.DESCRIBE_TRANSACTIONS,
    target=coordinator_of_transaction,
    build=lambda names, version: DescribeTransactionsRequest(list(names)),
    read=lambda response, names, version: [
        (state.transactional_id, outcome(_described(state), state.error_code)) for state in response.transaction_states
    ],
    name=_transactional_id,
)


def _abort(producer_id: int, producer_epoch: int, coordinator_epoch: int) -> Ask[TopicPartition, None]:
    return Ask(
        ApiKey.WRITE_TXN_MARKERS,
        target=Leader,
        build=lambda partitions, version: WriteTxnMarkersRequest(
            [
                WritableTxnMarker(
                    producer_id,
                    producer_epoch,
                    False,
                    [WritableTxnMarkerTopic(topic, [index]) for topic, index in partitions],
                    coordinator_epoch,
                )
            ]
        ),
        read=lambda response, partitions, version: [
            (TopicPartition(topic.name, answer.partition_index), outcome(None, answer.error_code))
            for marker in response.markers
            for topic in marker.topics
            for answer in topic.partitions
        ],
        name=lambda partition: f"{partition}, producer {producer_id} epoch {producer_epoch}",
    )
