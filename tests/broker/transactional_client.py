"""A transactional producer that hides nothing: every request in the version that a test asks for, errors and all."""

from __future__ import annotations

from typing import Any

from semel.wire.apis import ApiKey
from semel.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from semel.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from semel.wire.messages.end_txn import EndTxnRequest
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.produce import PartitionProduceResponse
from semel.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.raw_client import RawClient, batch, produce_request

GROUP, TRANSACTION = 0, 1
V1_PRODUCE, V2_PRODUCE = 11, 12
V1_END, V2_END = 4, 5


class Transactional:
    """``is_v2`` chooses the versions by default. Sequences are counted per partition, and anew for every epoch."""

    def __init__(
        self, client: RawClient, transactional_id: str, *, is_v2: bool = True, timeout_ms: int = 60_000
    ) -> None:
        self.client = client
        self.transactional_id = transactional_id
        self.producer_id = -1
        self.epoch = -1
        self._is_v2 = is_v2
        self._timeout_ms = timeout_ms
        self._sequences: dict[tuple[str, int], int] = {}

    def find(self) -> None:
        """Let the coordinator's topic be made."""
        for key_type in (TRANSACTION, GROUP):
            find_coordinator(self.client, self.transactional_id, key_type)

    def init(self, version: int = 4, *, resume: bool = False) -> Any:
        """Takes what it is given as its identity, unless it is an error."""
        identity = (self.producer_id, self.epoch) if resume else (None, None)
        request = InitProducerIdRequest(self.transactional_id, self._timeout_ms, *identity)
        answer = self.client.call(ApiKey.INIT_PRODUCER_ID, version, request)
        if answer.error_code == 0:
            self._take(answer)
        return answer

    def add(self, topic: str, *partitions: int, version: int = 3, verify_only: bool = False) -> list[int]:
        """AddPartitionsToTxn: the error of every partition, in order."""
        topics = [AddPartitionsToTxnTopic(topic, list(partitions))]
        if version < 4:
            request = AddPartitionsToTxnRequest([], self.transactional_id, self.producer_id, self.epoch, topics)
            (answered,) = self.client.call(ApiKey.ADD_PARTITIONS_TO_TXN, version, request).results_by_topic_v3_and_below
        else:
            transaction = AddPartitionsToTxnTransaction(
                self.transactional_id, self.producer_id, self.epoch, verify_only, topics
            )
            answer = self.client.call(ApiKey.ADD_PARTITIONS_TO_TXN, version, AddPartitionsToTxnRequest([transaction]))
            ((answered,),) = (result.topic_results for result in answer.results_by_transaction)
        assert answered.name == topic
        assert [result.partition_index for result in answered.results_by_partition] == list(partitions)
        return [result.partition_error_code for result in answered.results_by_partition]

    def produce(
        self,
        topic: str,
        *values: bytes,
        partition: int = 0,
        version: int | None = None,
        epoch: int | None = None,
        sequence: int | None = None,
        transactional_id: str | None = "",
    ) -> PartitionProduceResponse:
        place = (topic, partition)
        base_sequence = self._sequences.get(place, 0) if sequence is None else sequence
        records = batch(
            *(values or (b"value",)),
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=base_sequence,
            is_transactional=True,
        )
        request = produce_request(topic, records, partition=partition)
        request.transactional_id = self.transactional_id if transactional_id == "" else transactional_id
        if version is None:
            version = V2_PRODUCE if self._is_v2 else V1_PRODUCE
        ((answer,),) = (t.partition_responses for t in self.client.call(ApiKey.PRODUCE, version, request).responses)
        assert isinstance(answer, PartitionProduceResponse)
        if answer.error_code == 0 and sequence is None:
            self._sequences[place] = base_sequence + max(len(values), 1)
        return answer

    def add_offsets(self, group: str, version: int = 3) -> int:
        request = AddOffsetsToTxnRequest(self.transactional_id, self.producer_id, self.epoch, group)
        code: int = self.client.call(ApiKey.ADD_OFFSETS_TO_TXN, version, request).error_code
        return code

    def commit_offset(
        self, group: str, topic: str, offset: int, *, partition: int = 0, version: int | None = None, **who: Any
    ) -> int:
        place = TxnOffsetCommitRequestPartition(partition, offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(topic, [place])],
            **who,
        )
        if version is None:
            version = 5 if self._is_v2 else 3
        answer = self.client.call(ApiKey.TXN_OFFSET_COMMIT, version, request)
        code: int = answer.topics[0].partitions[0].error_code
        return code

    def end(self, committed: bool, version: int | None = None, *, epoch: int | None = None) -> Any:
        if version is None:
            version = V2_END if self._is_v2 else V1_END
        request = EndTxnRequest(
            self.transactional_id, self.producer_id, self.epoch if epoch is None else epoch, committed
        )
        answer = self.client.call(ApiKey.END_TXN, version, request)
        if answer.error_code == 0 and version >= V2_END and epoch is None:
            self._take(answer)
        return answer

    def _take(self, answer: Any) -> None:
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self._sequences.clear()


def find_coordinator(client: RawClient, key: str, key_type: int, version: int = 3) -> Any:
    request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
    return client.call(ApiKey.FIND_COORDINATOR, version, request)
