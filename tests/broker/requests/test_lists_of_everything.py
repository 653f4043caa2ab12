"""Short requests that mean everything there is of a kind: looked up in slices, and an answer has an end.

Counted in elements for each turn of the event loop. What is there is put into the broker's memory: to write it down
would take the test longer, and nothing here rests on the log.
"""

from __future__ import annotations

from itertools import pairwise
from threading import Event
from typing import Any

import pytest

from semel.broker.coordinators.every_shard import SLICE_IDS
from semel.broker.node import Node
from semel.broker.requests.handlers import describe_log_dirs, describe_producers, offset_fetch
from semel.broker.turns import Turns
from semel.coordinator.group.classic.group import ClassicGroup
from semel.coordinator.group.offsets.committed import StoredOffset
from semel.coordinator.group.offsets.removal import RECORDS_PER_BATCH_MAX
from semel.coordinator.group.records import OffsetCommit, OffsetKey
from semel.coordinator.transaction import records
from semel.coordinator.transaction.records import Transaction
from semel.coordinator.transaction.states import TxnState
from semel.errors import ErrorCode
from semel.testing import Broker
from semel.wire.apis import ApiKey
from semel.wire.messages.delete_topics import DeleteTopicsRequest
from semel.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from semel.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from semel.wire.messages.list_groups import ListGroupsRequest
from semel.wire.messages.list_transactions import ListTransactionsRequest
from semel.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.broker.raw_client import RawClient, batch
from tests.broker.transactional_client import GROUP, TRANSACTION, find_coordinator

MANY = 3500


@pytest.fixture
def node(broker: Broker) -> Node:
    assert broker._broker is not None
    return broker._broker.node


@pytest.fixture(autouse=True)
def turns(node: Node) -> Turns:
    node.turns.most_elements = 0
    return node.turns


def test_all_offsets_of_a_group_are_looked_up_in_slices(client: RawClient, node: Node, topic: str) -> None:
    group = f"group of {topic}"
    find_coordinator(client, group, GROUP)
    topic_id = node.image.topics[topic].id
    runtime = node.coordinators.groups.runtime(node.coordinators.groups.partition_for(group))
    assert runtime is not None
    committed = runtime.shard.offsets._state.committed
    for number in reversed(range(MANY)):
        key = OffsetKey(group, topic, number)
        committed.put(StoredOffset(OffsetCommit(key, 7 + number, None, "", 0, None, topic_id), number))
    committed.put(StoredOffset(OffsetCommit(OffsetKey(group, "gone", 3), 5, None, "", 0), MANY))
    expected = [(number, 7 + number, 0) for number in range(MANY)]

    for version in (2, 7, 8, 9, 10):
        node.turns.most_elements = 0
        for require_stable in (False, True) if version >= 7 else (False,):
            request = OffsetFetchRequest(
                group, topics=None, groups=[OffsetFetchRequestGroup(group, topics=None)], require_stable=require_stable
            )
            answer = client.call(ApiKey.OFFSET_FETCH, version, request)
            topics: list[Any] = answer.topics if version < 8 else answer.groups[0].topics
            if version < 10:
                gone = topics.pop(0)
                assert (gone.name, [p.committed_offset for p in gone.partitions]) == ("gone", [5])
            (found,) = topics
            assert [(p.partition_index, p.committed_offset, p.error_code) for p in found.partitions] == expected
        assert node.turns.most_elements == offset_fetch.SLICE_OFFSETS

    assert runtime.shard.offsets.delete_group(group).records
    for number in range(MANY):
        committed.remove(OffsetKey(group, topic, number))


def test_the_offsets_of_a_deleted_topic_are_removed_in_slices(client: RawClient, node: Node, topic: str) -> None:
    find_coordinator(client, topic, GROUP)
    topic_id = node.image.topics[topic].id
    runtime = node.coordinators.groups.runtime(node.coordinators.groups.partition_for(topic))
    assert runtime is not None
    offsets, log, loop = runtime.shard.offsets, runtime.partition.log, node.partitions._loop
    for number in range(MANY):
        key = OffsetKey(f"group {number}", topic, 0)
        offsets._state.committed.put(StoredOffset(OffsetCommit(key, 7, None, "", 0, None, topic_id), -1))
    ends: list[int] = []
    all_removed = Event()

    def look() -> None:
        """Once in each turn of the loop."""
        ends.append(log.log_end_offset)
        if ends[-1] - ends[0] < MANY:
            loop.call_soon(look)
        else:
            all_removed.set()

    loop.call_soon_threadsafe(look)
    client.call(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=[topic]))

    assert all_removed.wait(10)
    assert offsets._state.committed.groups_of_topic(topic) == []
    assert max(after - before for before, after in pairwise(ends)) == RECORDS_PER_BATCH_MAX


def test_a_group_that_is_named_again_and_again_is_answered_until_the_answer_is_full(
    client: RawClient, node: Node, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_fetch, "ANSWER_OFFSETS_MAX", 20)
    group = f"group of {topic}"
    find_coordinator(client, group, GROUP)
    runtime = node.coordinators.groups.runtime(node.coordinators.groups.partition_for(group))
    assert runtime is not None
    for number in range(10):
        key = OffsetKey(group, topic, number)
        runtime.shard.offsets._state.committed.put(StoredOffset(OffsetCommit(key, number, None, "", 0), number))
    for times in (4, 1200):  # The second is cut into pieces.
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group, topics=None)] * times)
        answer = client.call(ApiKey.OFFSET_FETCH, 8, request)
        codes = [found.error_code for found in answer.groups]
        assert codes == [0, 0] + [ErrorCode.INVALID_REQUEST] * (times - 2)
        assert [len(found.topics) for found in answer.groups] == [1, 1] + [0] * (times - 2)


def test_very_many_producers_of_a_partition_are_described_in_slices(client: RawClient, node: Node, topic: str) -> None:
    _give_producers(client, node, topic, MANY)
    request = DescribeProducersRequest([TopicRequest(topic, [0, 8])])

    ((known, unknown),) = (found.partitions for found in client.call(ApiKey.DESCRIBE_PRODUCERS, 0, request).topics)

    assert [producer.producer_id for producer in known.active_producers] == list(range(MANY))
    assert {producer.last_sequence for producer in known.active_producers} == {0}
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert node.turns.most_elements == describe_producers.SLICE_PRODUCERS


def test_a_partition_that_is_named_again_and_again_is_described_until_the_answer_is_full(
    client: RawClient, node: Node, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describe_producers, "ANSWER_PRODUCERS_MAX", 20)
    _give_producers(client, node, topic, 10)
    for times in (4, 1200):  # The second is cut into pieces.
        request = DescribeProducersRequest([TopicRequest(topic, [0] * times)])
        (found,) = client.call(ApiKey.DESCRIBE_PRODUCERS, 0, request).topics
        assert [p.error_code for p in found.partitions] == [0, 0] + [ErrorCode.INVALID_REQUEST] * (times - 2)
        assert [len(p.active_producers) for p in found.partitions] == [10, 10] + [0] * (times - 2)
        assert f"{topic}-0" in found.partitions[2].error_message


def test_very_many_groups_of_one_shard_are_listed_in_slices(client: RawClient, node: Node, topic: str) -> None:
    find_coordinator(client, "some", GROUP)
    client.call(ApiKey.LIST_GROUPS, 4, ListGroupsRequest())
    runtime = node.coordinators.groups.runtime(0)
    assert runtime is not None
    groups = {f"{topic}-{number}": ClassicGroup(f"{topic}-{number}") for number in range(MANY)}
    runtime.shard.directory.groups.update(groups)
    simple = OffsetKey(f"simple of {topic}", topic, 0)
    runtime.shard.offsets._state.committed.put(StoredOffset(OffsetCommit(simple, 1, None, "", 0), 1))
    try:
        answer = client.call(ApiKey.LIST_GROUPS, 5, ListGroupsRequest())
        assert answer.error_code == 0
        listed = [group.group_id for group in answer.groups if topic in group.group_id]
        assert listed == [*groups, simple.group_id]
        assert node.turns.most_elements == SLICE_IDS
        assert client.call(ApiKey.LIST_GROUPS, 5, ListGroupsRequest(states_filter=["Stable"])).groups == []
    finally:
        for group_id in groups:
            del runtime.shard.directory.groups[group_id]


def test_very_many_transactional_ids_of_one_shard_are_listed_in_slices(client: RawClient, node: Node) -> None:
    find_coordinator(client, "some", TRANSACTION)
    client.call(ApiKey.LIST_TRANSACTIONS, 1, ListTransactionsRequest())
    runtime = node.coordinators.transactions.runtime(0)
    assert runtime is not None
    for number in range(MANY):
        runtime.shard.replay(
            Transaction(f"t-{number}", number, 0, None, None, None, TxnState.EMPTY, frozenset(), 1000, None, 0, 2)
        )
    answer = client.call(ApiKey.LIST_TRANSACTIONS, 2, ListTransactionsRequest())
    assert answer.error_code == 0
    assert [listed.transactional_id for listed in answer.transaction_states] == [f"t-{n}" for n in range(MANY)]
    assert node.turns.most_elements == SLICE_IDS
    filtered = client.call(ApiKey.LIST_TRANSACTIONS, 2, ListTransactionsRequest(transactional_id_pattern="t-3.*"))
    assert len(filtered.transaction_states) == 1 + 10 + 100 + 500


def test_transactional_ids_that_rest_are_decoded_in_slices(
    client: RawClient, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they are after a start: bytes of the log, which a request decodes."""
    find_coordinator(client, "some", TRANSACTION)
    client.call(ApiKey.LIST_TRANSACTIONS, 1, ListTransactionsRequest())
    runtime = node.coordinators.transactions.runtime(0)
    assert runtime is not None
    for number in range(MANY):
        rests = Transaction(f"rests-{number}", 7, 0, 7, None, None, TxnState.EMPTY, frozenset(), 1000, None, 0, 0)
        record = records.decode_to_load(*records.encode(rests))
        assert isinstance(record, records.EncodedIdleTransaction)
        runtime.shard.replay(record)
    decoded = 0
    usual_transaction = records._usual_transaction

    def counted(transactional_id: str, value: bytes) -> Transaction | None:
        nonlocal decoded
        decoded += 1
        return usual_transaction(transactional_id, value)

    monkeypatch.setattr(records, "_usual_transaction", counted)
    loop, counts = node.partitions._loop, [0]

    def look() -> None:
        """Once in each turn of the loop."""
        counts.append(decoded)
        if decoded < MANY:
            loop.call_soon(look)

    loop.call_soon_threadsafe(look)
    answer = client.call(ApiKey.LIST_TRANSACTIONS, 1, ListTransactionsRequest(producer_id_filters=[]))

    assert sum(listed.transactional_id.startswith("rests-") for listed in answer.transaction_states) == MANY
    assert max(after - before for before, after in pairwise(counts)) == SLICE_IDS
    for number in range(MANY):
        runtime.shard.replay(records.Tombstone(f"rests-{number}"))


def test_very_many_partitions_are_told_in_slices(
    client: RawClient, node: Node, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(describe_log_dirs, "SLICE_PARTITIONS", 7)
    client.create_topic(name, 20)
    node.turns.most_elements = 0  # To make them was counted too.
    (result,) = client.call(ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(topics=None)).results
    (found,) = (topic for topic in result.topics if topic.name == name)
    assert [p.partition_index for p in found.partitions] == list(range(20))
    assert node.turns.most_elements == 7


def _give_producers(client: RawClient, node: Node, topic: str, count: int) -> None:
    client.produce(topic, batch(b"a", timestamp=5000, producer_id=0, producer_epoch=3, base_sequence=0))
    partition = node.partitions.get(topic, 0)
    assert partition is not None
    producers = partition.log.producers._producers
    for number in reversed(range(1, count)):
        producers[number] = producers[0]
