"""A transactional producer as small as it can be, in either protocol generation, and what it knows of its transactions.

It writes numbered values to a few partitions, commits offsets of its own group, ends the transaction, and remembers
how. It never guesses: an end is asked for until there is an answer that says what became of it. Whatever else goes
wrong ends in a new epoch (InitProducerId), which aborts what is open.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Any

from semel.errors import ErrorCode
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from semel.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from semel.wire.messages.end_txn import EndTxnRequest
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from semel.wire.records import Record, build_batch
from tests.simulation.wire_client import WireClient

RETRIABLE = {
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}


class Lost(Exception):
    """The transaction cannot be gone on with."""


@dataclass(slots=True)
class Written:
    """One transaction: what was sent where, and how it ended."""

    number: int
    committed: bool | None = None
    values: dict[TopicPartition, list[bytes]] = field(default_factory=dict)
    has_offset: bool = False


class TransactionalProducer:
    def __init__(
        self,
        name: str,
        client: WireClient,
        random: Random,
        *,
        topic: str,
        partitions: int,
        is_v2: bool,
        timeout_ms: int,
    ) -> None:
        self.name = name
        self.group = f"group-of-{name}"
        self.transactions: list[Written] = []
        self._client = client
        self._random = random
        self._topic = topic
        self._partitions = partitions
        self._is_v2 = is_v2
        self._timeout_ms = timeout_ms
        self._producer_id = -1
        self._epoch = -1
        self._sequences: dict[int, int] = {}

    async def run(self, count: int, *, abort_probability: float = 0.1) -> None:
        """Commit or abort, on purpose, ``count`` transactions."""
        await self._find()
        await self._init()
        done = 0
        while done < count:
            written = Written(len(self.transactions))
            self.transactions.append(written)
            wanted = self._random.random() >= abort_probability
            try:
                await self._write(written)
                written.committed = await self._end(wanted)
                done += written.committed == wanted
            except Lost:
                written.committed = False
                await self._init()

    async def _find(self) -> None:
        for key_type, key in ((1, self.name), (0, self.group)):
            request = FindCoordinatorRequest(key=key, key_type=key_type)
            while (await self._call(ApiKey.FIND_COORDINATOR, 3, request)).error_code != ErrorCode.NONE:
                await asyncio.sleep(0.1)

    async def _init(self) -> None:
        while True:
            request = InitProducerIdRequest(self.name, self._timeout_ms)
            answer = await self._call(ApiKey.INIT_PRODUCER_ID, 4, request)
            if answer.error_code == ErrorCode.NONE:
                self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
                self._sequences = {}
                return
            assert answer.error_code in RETRIABLE, f"{self.name}: {answer}"
            await asyncio.sleep(0.05)

    async def _write(self, written: Written) -> None:
        chosen = sorted(self._random.sample(range(self._partitions), self._random.randint(1, self._partitions)))
        if not self._is_v2:
            await self._add_partitions(chosen)
        for index in chosen:
            values = [f"{self.name}/{written.number}/{index}/{n}".encode() for n in range(self._random.randint(1, 3))]
            written.values[TopicPartition(self._topic, index)] = values
            await self._produce(index, values)
        if self._random.random() < 0.5:
            await self._commit_offset(written)

    async def _add_partitions(self, indexes: list[int]) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(self._topic, indexes)],
        )
        await self._until_accepted(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            3,
            request,
            lambda answer: answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
        )

    async def _produce(self, index: int, values: list[bytes]) -> None:
        sequence = self._sequences.get(index, 0)
        records = build_batch(
            [Record(n, 1_700_000_000_000, b"key", value) for n, value in enumerate(values)],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
        data = TopicProduceData(name=self._topic, partition_data=[PartitionProduceData(index, records)])
        request = ProduceRequest(transactional_id=self.name, acks=-1, timeout_ms=1_000, topic_data=[data])
        await self._until_accepted(
            ApiKey.PRODUCE,
            12 if self._is_v2 else 9,
            request,
            lambda answer: answer.responses[0].partition_responses[0].error_code,
        )
        self._sequences[index] = sequence + len(values)

    async def _commit_offset(self, written: Written) -> None:
        identity = (self.name, self._producer_id, self._epoch)
        if not self._is_v2:
            request = AddOffsetsToTxnRequest(*identity, self.group)
            await self._until_accepted(ApiKey.ADD_OFFSETS_TO_TXN, 3, request, lambda answer: answer.error_code)
        offset = TxnOffsetCommitRequestPartition(0, written.number, committed_metadata="")
        commit = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=self.group,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            topics=[TxnOffsetCommitRequestTopic(self._topic, [offset])],
        )
        written.has_offset = True
        await self._until_accepted(
            ApiKey.TXN_OFFSET_COMMIT,
            5 if self._is_v2 else 3,
            commit,
            lambda answer: answer.topics[0].partitions[0].error_code,
        )

    async def _end(self, commit: bool) -> bool:
        """Commit or abort. Returns how the transaction ended, which may be otherwise: it may have timed out."""
        request = EndTxnRequest(self.name, self._producer_id, self._epoch, commit)
        while True:
            answer = await self._call(ApiKey.END_TXN, 5 if self._is_v2 else 3, request)
            if answer.error_code == ErrorCode.NONE:
                if self._is_v2:
                    self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
                    self._sequences = {}
                return commit
            if answer.error_code not in RETRIABLE:
                # Had it been committed, the answer to a repeated request would have been that it was.
                raise Lost(ErrorCode(answer.error_code).name)
            await asyncio.sleep(0.05)

    async def _until_accepted(self, key: ApiKey, version: int, request: object, error_of: Any) -> None:
        while True:
            code = error_of(await self._call(key, version, request))
            if code == ErrorCode.NONE:
                return
            if code not in RETRIABLE:
                raise Lost(f"{key.name}: {ErrorCode(code).name}")
            await asyncio.sleep(0.05)

    async def _call(self, key: ApiKey, version: int, message: object) -> Any:
        while True:
            try:
                return await self._client.call(key, version, message)
            except (OSError, TimeoutError):
                self._client.close()
                await asyncio.sleep(0.1)
