"""Brokers as a client sees them, in memory: metadata, logs that deduplicate, and a coordinator of transactions.

A model, not a broker: every rule that a producer relies on is here in its shortest form, so that a test can compare.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from semel.errors import ErrorCode
from semel.types import ZERO_UUID, Address, TopicPartition
from semel.wire.apis import APIS, ApiKey
from semel.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from semel.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from semel.wire.messages.api_versions import ApiVersion, ApiVersionsResponse, FinalizedFeatureKey
from semel.wire.messages.end_txn import EndTxnResponse
from semel.wire.messages.fetch import AbortedTransaction, FetchableTopicResponse, FetchResponse, PartitionData
from semel.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from semel.wire.messages.init_producer_id import InitProducerIdResponse
from semel.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from semel.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from semel.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from semel.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from semel.wire.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from semel.wire.records import iterate_records, parse_header, patch_offset_and_epoch

BATCHES_REMEMBERED = 5


@dataclass
class Appended:
    producer_id: int
    epoch: int
    first: int
    last: int
    base_offset: int


@dataclass
class ModelLog:
    """One partition: values in order, and the last five batches of each producer."""

    values: list[bytes | None] = field(default_factory=list)
    batches: list[bytes] = field(default_factory=list)
    """What a fetch is answered with. Tests may put in markers and what else they like."""
    start_offset: int = 0
    last_stable_offset: int | None = None
    aborted: list[AbortedTransaction] = field(default_factory=list)
    remembered: dict[int, list[Appended]] = field(default_factory=dict)
    refuse_with: list[ErrorCode] = field(default_factory=list)
    """Codes for the next batches, before anything is looked at."""
    open: dict[int, list[bytes | None]] = field(default_factory=dict)
    """Values of transactions that are not decided, by producer id."""
    committed: list[bytes | None] = field(default_factory=list)

    def append(self, records: Any) -> tuple[ErrorCode, int]:
        if self.refuse_with:
            code = self.refuse_with.pop(0)
            if code != ErrorCode.NONE:
                return code, -1
        header = parse_header(records)
        if header.has_producer_id:
            code, offset = self._check(header)
            if code != ErrorCode.NONE or offset >= 0:
                return code, offset
        base_offset = len(self.values)
        self.values += [record.value for record in iterate_records(records)]
        batch = bytearray(records)
        patch_offset_and_epoch(batch, 0, base_offset, 0)
        self.batches.append(bytes(batch))
        if header.has_producer_id:
            appended = Appended(
                header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence, base_offset
            )
            known = self.remembered.setdefault(header.producer_id, [])
            known.append(appended)
            del known[:-BATCHES_REMEMBERED]
        return ErrorCode.NONE, base_offset

    def _check(self, header: Any) -> tuple[ErrorCode, int]:
        known = self.remembered.get(header.producer_id)
        if not known:
            return ErrorCode.NONE, -1  # A producer that is not known may begin anywhere.
        last = known[-1]
        if header.producer_epoch < last.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        if header.producer_epoch > last.epoch:
            good = header.base_sequence == 0
            return (ErrorCode.NONE if good else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), -1
        for batch in known:
            same = (batch.epoch, batch.first, batch.last)
            if same == (header.producer_epoch, header.base_sequence, header.last_sequence):
                return ErrorCode.NONE, batch.base_offset
        if header.base_sequence != (last.last + 1) & 0x7FFFFFFF:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        return ErrorCode.NONE, -1


@dataclass
class ModelTransactions:
    """The coordinator of transactional ids: what it was asked, and the epochs it gives out."""

    identities: dict[str, tuple[int, int]] = field(default_factory=dict)
    next_producer_id: int = 1000
    partitions: dict[str, set[TopicPartition]] = field(default_factory=dict)
    groups: dict[str, set[str]] = field(default_factory=dict)
    offsets: dict[tuple[str, TopicPartition], int] = field(default_factory=dict)
    pending_offsets: dict[str, dict[tuple[str, TopicPartition], int]] = field(default_factory=dict)
    outcomes: list[bool] = field(default_factory=list)
    last_resumed: dict[str, tuple[int | None, int | None]] = field(default_factory=dict)
    last_end: dict[str, tuple[int, int, bool]] = field(default_factory=dict)
    refuse_with: dict[ApiKey, list[ErrorCode]] = field(default_factory=dict)

    def refusal(self, api_key: ApiKey) -> ErrorCode:
        codes = self.refuse_with.get(api_key, [])
        return codes.pop(0) if codes else ErrorCode.NONE


class ModelCluster:
    def __init__(self, *, nodes: int = 1, topics: dict[str, int] | None = None, transaction_version: int = 2) -> None:
        self.addresses = {node_id: Address(f"node-{node_id}", 9092) for node_id in range(1, nodes + 1)}
        self.logs: dict[TopicPartition, ModelLog] = {}
        self.leaders: dict[TopicPartition, int] = {}
        self.leader_epochs: dict[TopicPartition, int] = {}
        self.topic_errors: dict[str, ErrorCode] = {}
        self.creates_topics = True
        self.has_topic_ids = True
        self.transaction_version = transaction_version
        self.transactions = ModelTransactions()
        self.coordinator_id = 1
        self.replica_nearby: int | None = None
        """Where readers are sent that say in which rack they stand."""
        self.next_producer_id = 1
        self.versions = {
            api.key: (api.min_version, api.max_version) for api in APIS.values() if api.key is not ApiKey.METADATA
        }
        self.versions[ApiKey.METADATA] = (0, 13)
        for topic, partitions in (topics or {}).items():
            self.create_topic(topic, partitions)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(map(str, self.addresses.values()))

    def create_topic(self, topic: str, partitions: int = 1) -> None:
        for index in range(partitions):
            topic_partition = TopicPartition(topic, index)
            self.logs[topic_partition] = ModelLog()
            self.leaders[topic_partition] = index % len(self.addresses) + 1
            self.leader_epochs[topic_partition] = 0

    def move_leader(self, topic: str, partition: int, node_id: int) -> None:
        self.leaders[TopicPartition(topic, partition)] = node_id
        self.leader_epochs[TopicPartition(topic, partition)] += 1

    def log(self, topic: str, partition: int = 0) -> ModelLog:
        return self.logs[TopicPartition(topic, partition)]

    def node_at(self, address: Address) -> int | None:
        return next((node_id for node_id, known in self.addresses.items() if known == address), None)

    def topic_id(self, topic: str) -> UUID:
        known = list(dict.fromkeys(name for name, _ in self.logs))
        return UUID(int=known.index(topic) + 1) if self.has_topic_ids and topic in known else ZERO_UUID

    # Answers

    def answer(self, request: Any) -> object | None:
        answer = getattr(self, f"_{request.api_key.name.lower()}", None)
        assert answer is not None, f"the model does not know {request.api_key.name}"
        found: object | None = answer(request)
        return found

    def _api_versions(self, request: Any) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            api_keys=[ApiVersion(key, first, last) for key, (first, last) in self.versions.items()],
            finalized_features_epoch=1,
            finalized_features=[FinalizedFeatureKey("transaction.version", self.transaction_version, 0)],
        )

    def _metadata(self, request: Any) -> MetadataResponse:
        names = [topic.name for topic in request.message.topics or ()]
        for name in names:
            unknown = TopicPartition(name, 0) not in self.logs and name not in self.topic_errors
            if unknown and self.creates_topics and request.message.allow_auto_topic_creation:
                self.create_topic(name)
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node, *address) for node, address in self.addresses.items()],
            topics=[self._topic(name) for name in names],
        )

    def _topic(self, name: str) -> MetadataResponseTopic:
        if name in self.topic_errors:
            return MetadataResponseTopic(self.topic_errors[name], name)
        partitions = [tp for tp in self.logs if tp.topic == name]
        if not partitions:
            return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
        return MetadataResponseTopic(
            ErrorCode.NONE,
            name,
            self.topic_id(name),
            partitions=[
                MetadataResponsePartition(
                    partition_index=tp.partition, leader_id=self.leaders[tp], leader_epoch=self.leader_epochs[tp]
                )
                for tp in partitions
            ],
        )

    def _init_producer_id(self, request: Any) -> InitProducerIdResponse:
        name = request.message.transactional_id
        if name is None:
            self.next_producer_id += 1
            return InitProducerIdResponse(producer_id=self.next_producer_id - 1, producer_epoch=0)
        code = self.transactions.refusal(ApiKey.INIT_PRODUCER_ID)
        if code != ErrorCode.NONE:
            return InitProducerIdResponse(error_code=code)
        producer_id, epoch = self.transactions.identities.get(name, (self.transactions.next_producer_id, -1))
        expected = (request.message.producer_id, request.message.producer_epoch)
        if expected != (None, None) and self.transactions.last_resumed.get(name) == expected:
            return InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)  # The answer was lost.
        if expected != (None, None) and expected != (producer_id, epoch):
            return InitProducerIdResponse(error_code=ErrorCode.PRODUCER_FENCED)
        if epoch == -1:
            self.transactions.next_producer_id += 1
        self._end(name, committed=False, counts=False)
        self.transactions.last_resumed[name] = expected
        self.transactions.identities[name] = (producer_id, epoch + 1)
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch + 1)

    def _find_coordinator(self, request: Any) -> FindCoordinatorResponse:
        code = self.transactions.refusal(ApiKey.FIND_COORDINATOR)
        host, port = self.addresses[self.coordinator_id]
        found = [Coordinator(key, self.coordinator_id, host, port, code) for key in request.message.coordinator_keys]
        return FindCoordinatorResponse(
            coordinators=found, node_id=self.coordinator_id, host=host, port=port, error_code=code
        )

    def _produce(self, request: Any) -> ProduceResponse | None:
        names = {self.topic_id(topic): topic for topic, _ in self.logs}
        response = ProduceResponse()
        for data in request.message.topic_data:
            name = names.get(data.topic_id, "") if request.version >= 13 else data.name
            answers = [
                self._appended(request, TopicPartition(name, partition.index), partition.records)
                for partition in data.partition_data
            ]
            response.responses.append(TopicProduceResponse(name, data.topic_id, answers))
        return response if request.message.acks != 0 else None

    def _appended(self, request: Any, topic_partition: TopicPartition, records: Any) -> PartitionProduceResponse:
        index = topic_partition.partition
        if topic_partition not in self.logs:
            return PartitionProduceResponse(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if self.leaders[topic_partition] != request.node_id:
            return PartitionProduceResponse(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        name = request.message.transactional_id
        if name is not None:
            header = parse_header(records)
            if self.transactions.identities.get(name) != (header.producer_id, header.producer_epoch):
                return PartitionProduceResponse(index, ErrorCode.INVALID_PRODUCER_EPOCH)
            added = self.transactions.partitions.setdefault(name, set())
            if topic_partition not in added:
                if request.version < 12:
                    return PartitionProduceResponse(index, ErrorCode.INVALID_TXN_STATE)
                added.add(topic_partition)
        log = self.logs[topic_partition]
        before = len(log.values)
        code, offset = log.append(records)
        if name is not None:
            log.open.setdefault(parse_header(records).producer_id, []).extend(log.values[before:])
        return PartitionProduceResponse(index, code, offset)

    def _fenced(self, request: Any, producer_id: int, epoch: int) -> ErrorCode:
        name = getattr(request.message, "transactional_id", None) or request.message.v3_and_below_transactional_id
        known = self.transactions.identities.get(name)
        if known is None or known[0] != producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return ErrorCode.NONE if known[1] == epoch else ErrorCode.PRODUCER_FENCED

    def _coordinated(self, request: Any, producer_id: int, epoch: int) -> ErrorCode:
        if request.node_id != self.coordinator_id:
            return ErrorCode.NOT_COORDINATOR
        return self.transactions.refusal(request.api_key) or self._fenced(request, producer_id, epoch)

    def _add_partitions_to_txn(self, request: Any) -> AddPartitionsToTxnResponse:
        message = request.message
        code = self._coordinated(request, message.v3_and_below_producer_id, message.v3_and_below_producer_epoch)
        added = self.transactions.partitions.setdefault(message.v3_and_below_transactional_id, set())
        results = []
        for topic in message.v3_and_below_topics:
            if code == ErrorCode.NONE:
                added.update(TopicPartition(topic.name, index) for index in topic.partitions)
            partitions = [AddPartitionsToTxnPartitionResult(index, code) for index in topic.partitions]
            results.append(AddPartitionsToTxnTopicResult(topic.name, partitions))
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)

    def _add_offsets_to_txn(self, request: Any) -> AddOffsetsToTxnResponse:
        message = request.message
        code = self._coordinated(request, message.producer_id, message.producer_epoch)
        if code == ErrorCode.NONE:
            self.transactions.groups.setdefault(message.transactional_id, set()).add(message.group_id)
        return AddOffsetsToTxnResponse(error_code=code)

    def _txn_offset_commit(self, request: Any) -> TxnOffsetCommitResponse:
        message = request.message
        code = self._coordinated(request, message.producer_id, message.producer_epoch)
        known = message.group_id in self.transactions.groups.get(message.transactional_id, ())
        if code == ErrorCode.NONE and request.version < 5 and not known:
            code = ErrorCode.INVALID_TXN_STATE
        pending = self.transactions.pending_offsets.setdefault(message.transactional_id, {})
        topics = []
        for topic in message.topics:
            for partition in topic.partitions:
                if code == ErrorCode.NONE:
                    key = message.group_id, TopicPartition(topic.name, partition.partition_index)
                    pending[key] = partition.committed_offset
            answers = [TxnOffsetCommitResponsePartition(p.partition_index, code) for p in topic.partitions]
            topics.append(TxnOffsetCommitResponseTopic(topic.name, answers))
        return TxnOffsetCommitResponse(topics=topics)

    def _end_txn(self, request: Any) -> EndTxnResponse:
        message = request.message
        code = self._coordinated(request, message.producer_id, message.producer_epoch)
        name = message.transactional_id
        asked = (message.producer_id, message.producer_epoch, message.committed)
        if self.transactions.last_end.get(name) == asked and (
            # The answer was lost, and it is asked again. Under V1, only while nothing new has begun.
            code == ErrorCode.PRODUCER_FENCED or (code == ErrorCode.NONE and not self._has_begun(name))
        ):
            return EndTxnResponse(0, ErrorCode.NONE, *self.transactions.identities[name])
        if code != ErrorCode.NONE:
            return EndTxnResponse(error_code=code)
        if not self._has_begun(name):
            return EndTxnResponse(error_code=ErrorCode.INVALID_TXN_STATE)
        self.transactions.last_end[name] = asked
        self._end(name, committed=message.committed)
        producer_id, epoch = self.transactions.identities[name]
        if request.version >= 5:
            epoch += 1
            self.transactions.identities[name] = (producer_id, epoch)
        return EndTxnResponse(producer_id=producer_id, producer_epoch=epoch)

    def _has_begun(self, name: str) -> bool:
        known = self.transactions
        return bool(known.partitions.get(name) or known.groups.get(name) or known.pending_offsets.get(name))

    def _end(self, name: str, *, committed: bool, counts: bool = True) -> None:
        producer_id, _ = self.transactions.identities.get(name, (-1, -1))
        for topic_partition in self.transactions.partitions.pop(name, ()):
            decided = self.logs[topic_partition].open.pop(producer_id, [])
            if committed:
                self.logs[topic_partition].committed += decided
        self.transactions.groups.pop(name, None)
        pending = self.transactions.pending_offsets.pop(name, {})
        if committed:
            self.transactions.offsets.update(pending)
        if counts:
            self.transactions.outcomes.append(committed)

    def _fetch(self, request: Any) -> FetchResponse:
        names = {self.topic_id(topic): topic for topic, _ in self.logs}
        response = FetchResponse()
        for topic in request.message.topics:
            name = names.get(topic.topic_id, "") if request.version >= 13 else topic.topic
            answers = [
                self._fetched(request, TopicPartition(name, asked.partition), asked) for asked in topic.partitions
            ]
            response.responses.append(FetchableTopicResponse(name, topic.topic_id, answers))
        return response

    def _fetched(self, request: Any, topic_partition: TopicPartition, asked: Any) -> PartitionData:
        index, offset = topic_partition.partition, asked.fetch_offset
        log = self.logs.get(topic_partition)
        if log is None:
            return PartitionData(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if self.leaders[topic_partition] != request.node_id:
            return PartitionData(index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if asked.current_leader_epoch is not None and asked.current_leader_epoch != self.leader_epochs[topic_partition]:
            is_older = asked.current_leader_epoch < self.leader_epochs[topic_partition]
            return PartitionData(index, ErrorCode.FENCED_LEADER_EPOCH if is_older else ErrorCode.UNKNOWN_LEADER_EPOCH)
        if request.message.rack_id and self.replica_nearby is not None:
            return PartitionData(index, high_watermark=0, preferred_read_replica=self.replica_nearby, records=b"")
        end = parse_header(log.batches[-1]).next_offset if log.batches else 0
        if log.refuse_with:
            return PartitionData(index, log.refuse_with.pop(0))
        if not log.start_offset <= offset <= end:
            return PartitionData(index, ErrorCode.OFFSET_OUT_OF_RANGE)
        committed_only = request.message.isolation_level == 1
        stable = end if log.last_stable_offset is None else log.last_stable_offset
        served = [
            batch
            for batch in log.batches
            if parse_header(batch).next_offset > offset
            and not (committed_only and parse_header(batch).base_offset >= stable)
        ]
        return PartitionData(
            index,
            high_watermark=end,
            last_stable_offset=stable,
            log_start_offset=log.start_offset,
            aborted_transactions=list(log.aborted) if committed_only else None,
            records=b"".join(served),
        )

    def _offset_for_leader_epoch(self, request: Any) -> OffsetForLeaderEpochResponse:
        topics = []
        for topic in request.message.topics:
            answers = []
            for asked in topic.partitions:
                headers = [parse_header(batch) for batch in self.log(topic.topic, asked.partition).batches]
                older = [header for header in headers if header.partition_leader_epoch <= asked.leader_epoch]
                answers.append(
                    EpochEndOffset(
                        ErrorCode.NONE,
                        asked.partition,
                        older[-1].partition_leader_epoch if older else None,
                        older[-1].next_offset if older else None,
                    )
                )
            topics.append(OffsetForLeaderTopicResult(topic.topic, answers))
        return OffsetForLeaderEpochResponse(topics=topics)

    def _list_offsets(self, request: Any) -> ListOffsetsResponse:
        topics = []
        for topic in request.message.topics:
            answers = []
            for asked in topic.partitions:
                topic_partition = TopicPartition(topic.name, asked.partition_index)
                if self.leaders[topic_partition] != request.node_id:
                    answers.append(
                        ListOffsetsPartitionResponse(asked.partition_index, ErrorCode.NOT_LEADER_OR_FOLLOWER)
                    )
                    continue
                log = self.logs[topic_partition]
                end = parse_header(log.batches[-1]).next_offset if log.batches else 0
                if request.message.isolation_level == 1 and log.last_stable_offset is not None:
                    end = log.last_stable_offset
                offset = log.start_offset if asked.timestamp == -2 else end
                answers.append(ListOffsetsPartitionResponse(asked.partition_index, ErrorCode.NONE, None, offset))
            topics.append(ListOffsetsTopicResponse(topic.name, answers))
        return ListOffsetsResponse(topics=topics)
