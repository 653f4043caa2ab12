"""Everything that a broker keeps, written and read over the wire: records, settings, offsets, transactional ids.

``Writer`` fills a broker and remembers what was acknowledged in a ``Kept``. ``read`` gets all of it from a broker that
was started on the same files, with an ``Answer`` in the place of what is not served.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from semel.errors import ErrorCode
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from semel.wire.messages.delete_topics import DeleteTopicsRequest
from semel.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from semel.wire.messages.describe_transactions import DescribeTransactionsRequest
from semel.wire.messages.end_txn import EndTxnRequest
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.metadata import MetadataRequest
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.wire.messages.offset_fetch import OffsetFetchRequest
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from semel.wire.records import Record, build_batch, iterate_headers, iterate_records, verify_crc
from tests.simulation.wire_client import WireClient

PAYMENTS: Final = TopicPartition("payments", 0)
PLAIN: Final = TopicPartition("payments", 1)
UNDECIDED: Final = TopicPartition("undecided", 0)
PARTITIONS: Final = (PAYMENTS, PLAIN, UNDECIDED)
CREATED: Final = {
    "payments": {"segment.ms": "400", "retention.ms": "123456789"},
    "undecided": {"cleanup.policy": "compact,delete"},
    "gone": {},
}
GROUPS: Final = ("tellers", "auditors", "bookkeepers")
TRANSACTIONAL_IDS: Final = ("till", "drawer", "safe")

_TOPIC, _BROKER = 2, 4
_GROUP, _TRANSACTION = 0, 1
_TIMEOUT_MS: Final = 600_000
_RETRIABLE: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_COORDINATOR,
}


class Identity(NamedTuple):
    producer_id: int
    epoch: int


class Answer(NamedTuple):
    """An error in the place of what was asked for."""

    code: ErrorCode
    text: str = ""


class Damaged(NamedTuple):
    """Records up to a batch that fails its checksum."""

    before: list[bytes | None]


class Batch(NamedTuple):
    """A batch of an idempotent producer, to be sent again: the broker must know it."""

    identity: Identity
    sequence: int
    value: bytes
    base_offset: int


@dataclass
class Kept:
    """What a broker has acknowledged."""

    cluster_id: str
    topics: dict[str, int] = field(default_factory=dict)
    settings: dict[str, dict[str, str]] = field(default_factory=dict)
    records: dict[TopicPartition, list[bytes | None]] = field(default_factory=dict)
    offsets: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    transactions: dict[str, tuple[Identity, str]] = field(default_factory=dict)
    producer_ids: set[int] = field(default_factory=set)
    last_batch: Batch | None = None

    def copy(self) -> Kept:
        return replace(
            self,
            records={partition: list(values) for partition, values in self.records.items()},
            offsets={group: dict(offsets) for group, offsets in self.offsets.items()},
            transactions=dict(self.transactions),
            producer_ids=set(self.producer_ids),
        )


class Writer:
    """Fills a broker. Every method returns when it was acknowledged, and asserts that it was."""

    def __init__(self, client: WireClient, kept: Kept) -> None:
        self.kept = kept
        self._client = client
        self._identities: dict[str, Identity] = {}
        self._sequences: dict[tuple[str, TopicPartition], int] = {}

    async def create(self, name: str, partitions: int, settings: dict[str, str]) -> None:
        configs = [CreatableTopicConfig(*item) for item in settings.items()]
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=configs)
        answer = await self._client.call(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=[topic], timeout_ms=5_000))
        assert answer.topics[0].error_code == ErrorCode.NONE
        self.kept.topics[name] = partitions
        self.kept.settings[name] = dict(settings)
        self.kept.records |= {TopicPartition(name, number): [] for number in range(partitions)}

    async def delete(self, name: str) -> None:
        answer = await self._client.call(
            ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=[name], timeout_ms=5_000)
        )
        assert answer.responses[0].error_code == ErrorCode.NONE
        for number in range(self.kept.topics.pop(name)):
            del self.kept.records[TopicPartition(name, number)]
        del self.kept.settings[name]

    async def alter(self, name: str, setting: str, value: str) -> None:
        """Of a topic, or of the broker if the name is a number."""
        config = AlterConfigsResource(_kind(name), name, [AlterableConfig(setting, 0, value)])
        answer = await self._client.call(
            ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, IncrementalAlterConfigsRequest(resources=[config])
        )
        assert answer.responses[0].error_code == ErrorCode.NONE
        self.kept.settings.setdefault(name, {})[setting] = value

    async def init(self, name: str, *, is_transactional: bool = True) -> None:
        """A new identity for a producer: transactional under its own name, or only idempotent."""
        if is_transactional:
            assert await find(self._client, _TRANSACTION, name) is None
        request = InitProducerIdRequest(name if is_transactional else None, _TIMEOUT_MS)
        answer = await _patiently(self._client, ApiKey.INIT_PRODUCER_ID, 4, request, lambda found: found.error_code)
        assert answer.error_code == ErrorCode.NONE
        self._take(name, answer, is_transactional)
        self.kept.producer_ids.add(answer.producer_id)

    async def produce(self, name: str, partition: TopicPartition, value: bytes, *, in_transaction: bool) -> None:
        """One record. In a transaction it counts when that is committed."""
        identity = self._identities[name]
        sequence = self._sequences.get((name, partition), 0)
        answer = await produce(
            self._client, partition, value, identity, sequence, transactional_id=name if in_transaction else None
        )
        assert answer.error_code == ErrorCode.NONE
        self._sequences[name, partition] = sequence + 1
        if not in_transaction:
            self.kept.records[partition].append(value)
            self.kept.last_batch = Batch(identity, sequence, value, answer.base_offset)

    async def commit(self, group: str, partition: TopicPartition, offset: int) -> None:
        answer = await commit(self._client, group, partition, offset)
        assert answer == ErrorCode.NONE
        self.kept.offsets.setdefault(group, {})[partition] = offset

    async def transaction(self, name: str, group: str, value: bytes, offset: int, *, committed: bool | None) -> None:
        """A record and an offset in one transaction; ``None`` leaves it open."""
        partition = PAYMENTS if committed is not None else UNDECIDED
        await self.produce(name, partition, value, in_transaction=True)
        identity = self._identities[name]
        place = TxnOffsetCommitRequestPartition(partition.partition, offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id=name,
            group_id=group,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            topics=[TxnOffsetCommitRequestTopic(partition.topic, [place])],
        )
        answer = await _patiently(
            self._client,
            ApiKey.TXN_OFFSET_COMMIT,
            5,
            request,
            lambda found: found.topics[0].partitions[0].error_code,
        )
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
        if committed is None:
            self.kept.transactions[name] = (identity, "Ongoing")
            return
        ended = await self._client.call(
            ApiKey.END_TXN, 5, EndTxnRequest(name, identity.producer_id, identity.epoch, committed)
        )
        assert ended.error_code == ErrorCode.NONE
        self._take(name, ended, is_transactional=True)
        self.kept.transactions[name] = (self._identities[name], "CompleteCommit" if committed else "CompleteAbort")
        if committed:
            self.kept.records[partition].append(value)
            self.kept.offsets.setdefault(group, {})[partition] = offset

    def _take(self, name: str, answer: Any, is_transactional: bool) -> None:
        identity = self._identities[name] = Identity(answer.producer_id, answer.producer_epoch)
        self._sequences = {key: value for key, value in self._sequences.items() if key[0] != name}
        if is_transactional:
            self.kept.transactions[name] = (identity, "Empty")


async def fill(writer: Writer, round_number: int) -> None:
    """One of several rounds; what a later one writes supersedes or follows what an earlier one wrote."""
    if round_number == 0:
        for name, settings in CREATED.items():
            await writer.create(name, 2 if name == "payments" else 1, settings)
        for group in GROUPS:
            assert await find(writer._client, _GROUP, group) is None
        for name in TRANSACTIONAL_IDS:
            await writer.init(name)
        await writer.init("plain", is_transactional=False)
        await writer.alter("1", "log.retention.ms", "1000000000")
    for number in range(4):
        at = 10 * round_number + number
        await writer.transaction("till", "auditors", b"paid %d" % at, 100 + at, committed=True)
        await writer.transaction("safe", "auditors", b"taken back %d" % at, 9_000 + at, committed=False)
        await writer.produce("plain", PLAIN, b"plain %d" % at, in_transaction=False)
        await writer.commit("tellers", PLAIN, at)
        await writer.commit("bookkeepers", PAYMENTS, at)
    if round_number == 1:
        await writer.alter("payments", "max.message.bytes", "54321")
        await writer.delete("gone")
        await writer.transaction("drawer", "bookkeepers", b"undecided", 77, committed=None)


async def read(client: WireClient, kept: Kept) -> dict[str, Any]:
    """What a broker says about all that is kept, by the names of ``Kept``'s fields."""
    everything = await client.call(ApiKey.METADATA, 12, MetadataRequest(None, allow_auto_topic_creation=False))
    topics = {topic.name: len(topic.partitions) for topic in everything.topics if not topic.is_internal}
    return {
        "topics": topics,
        "cluster_id": everything.cluster_id,
        "settings": {name: await _settings(client, name, list(wanted)) for name, wanted in kept.settings.items()},
        "records": {partition: await _committed(client, partition) for partition in kept.records},
        "offsets": {group: await _offsets(client, group) for group in kept.offsets},
        "transactions": {name: await _transaction(client, name) for name in kept.transactions},
    }


async def find(client: WireClient, key_type: int, key: str) -> Answer | None:
    """Why a coordinator is not there, if it is not. Asserts that this is final, or over soon."""
    request = FindCoordinatorRequest(key=key, key_type=key_type, coordinator_keys=[key])
    for _ in range(50):
        (found,) = (await client.call(ApiKey.FIND_COORDINATOR, 4, request)).coordinators
        if found.error_code == ErrorCode.NONE:
            return None
        if found.error_code not in _RETRIABLE:
            return Answer(ErrorCode(found.error_code), found.error_message or "")
        await asyncio.sleep(0.1)
    raise AssertionError(f"the coordinator of {key} is asked for without end: {found}")


async def produce(
    client: WireClient,
    partition: TopicPartition,
    value: bytes,
    identity: Identity,
    sequence: int,
    *,
    transactional_id: str | None = None,
) -> Any:
    records = build_batch(
        [Record(0, 1_700_000_000_000, b"key", value)],
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        base_sequence=sequence,
        is_transactional=transactional_id is not None,
    )
    data = TopicProduceData(name=partition.topic, partition_data=[PartitionProduceData(partition.partition, records)])
    request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=1_000, topic_data=[data])
    answer = await _patiently(
        client, ApiKey.PRODUCE, 12, request, lambda found: found.responses[0].partition_responses[0].error_code
    )
    return answer.responses[0].partition_responses[0]


async def commit(client: WireClient, group: str, partition: TopicPartition, offset: int) -> ErrorCode:
    place = OffsetCommitRequestPartition(partition.partition, offset, committed_metadata="")
    request = OffsetCommitRequest(group, topics=[OffsetCommitRequestTopic(name=partition.topic, partitions=[place])])
    answer = await client.call(ApiKey.OFFSET_COMMIT, 8, request)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


async def new_producer_id(client: WireClient) -> int:
    answer = await client.call(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(None, _TIMEOUT_MS))
    assert answer.error_code == ErrorCode.NONE
    found: int = answer.producer_id
    return found


async def end_transaction(client: WireClient, name: str, identity: Identity) -> ErrorCode:
    request = EndTxnRequest(name, identity.producer_id, identity.epoch, True)
    answer = await _patiently(client, ApiKey.END_TXN, 5, request, lambda found: found.error_code)
    return ErrorCode(answer.error_code)


def _kind(name: str) -> int:
    return _BROKER if name.isdigit() else _TOPIC


async def _patiently(client: WireClient, key: ApiKey, version: int, request: object, code_of: Any) -> Any:
    for _ in range(50):
        answer = await client.call(key, version, request)
        if code_of(answer) not in _RETRIABLE:
            break
        await asyncio.sleep(0.05)
    return answer


async def _settings(client: WireClient, name: str, wanted: list[str]) -> dict[str, str]:
    resource = DescribeConfigsResource(_kind(name), name, wanted)
    answer = await client.call(ApiKey.DESCRIBE_CONFIGS, 1, DescribeConfigsRequest(resources=[resource]))
    return {entry.name: entry.value for entry in answer.results[0].configs}


async def _committed(client: WireClient, partition: TopicPartition) -> list[bytes | None] | Answer | Damaged:
    """What a read_committed consumer gets."""
    offset = 0
    found: list[bytes | None] = []
    while True:
        target = FetchPartition(partition.partition, fetch_offset=offset, partition_max_bytes=100_000)
        topics = [FetchTopic(topic=partition.topic, partitions=[target])]
        request = FetchRequest(max_wait_ms=0, min_bytes=0, isolation_level=1, topics=topics)
        answer = (await client.call(ApiKey.FETCH, 11, request)).responses[0].partitions[0]
        if answer.error_code == ErrorCode.CORRUPT_MESSAGE:
            return Damaged(found)
        if answer.error_code != ErrorCode.NONE:
            return Answer(ErrorCode(answer.error_code))
        batches = list(iterate_headers(answer.records or b"", allow_partial_tail=True))
        if not batches:
            return found if offset >= answer.last_stable_offset else Damaged(found)
        aborted = [(entry.producer_id, entry.first_offset) for entry in answer.aborted_transactions or ()]
        for position, header in batches:
            if not verify_crc(answer.records, position, header):
                return Damaged(found)
            offset = header.next_offset
            if header.is_control:
                # A transaction's end: of this producer's, the first that is left.
                mine = [entry for entry in sorted(aborted) if entry[0] == header.producer_id and entry[1] < offset]
                aborted = [entry for entry in aborted if entry not in mine[:1]]
            elif not any(pid == header.producer_id and first <= header.base_offset for pid, first in aborted):
                found += [record.value for record in iterate_records(answer.records, position)]


async def _offsets(client: WireClient, group: str) -> dict[TopicPartition, int] | Answer:
    unfound = await find(client, _GROUP, group)
    if unfound is not None:
        return unfound
    request = OffsetFetchRequest(group_id=group, topics=None)
    answer = await _patiently(client, ApiKey.OFFSET_FETCH, 7, request, lambda found: found.error_code)
    if answer.error_code != ErrorCode.NONE:
        return Answer(ErrorCode(answer.error_code))
    return {
        TopicPartition(topic.name, entry.partition_index): entry.committed_offset
        for topic in answer.topics
        for entry in topic.partitions
    }


async def _transaction(client: WireClient, name: str) -> tuple[Identity, str] | Answer:
    unfound = await find(client, _TRANSACTION, name)
    if unfound is not None:
        return unfound
    request = DescribeTransactionsRequest([name])
    answer = await _patiently(
        client, ApiKey.DESCRIBE_TRANSACTIONS, 0, request, lambda found: found.transaction_states[0].error_code
    )
    (state,) = answer.transaction_states
    if state.error_code != ErrorCode.NONE:
        return Answer(ErrorCode(state.error_code))
    return Identity(state.producer_id, state.producer_epoch), state.transaction_state
