"""What a transactional producer may do, request by request: the cases of Kafka's AuthorizerIntegrationTest."""

from __future__ import annotations

from typing import Any

import pytest

from semel.errors import ErrorCode
from semel.wire.apis import ApiKey
from semel.wire.codes import AclOperation as Op
from semel.wire.codes import AclResourceType as Of
from semel.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from semel.wire.messages.describe_transactions import DescribeTransactionsRequest
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.list_transactions import ListTransactionsRequest
from tests.broker.raw_client import RawClient, batch, produce_request
from tests.broker.secured import ALICE, SecuredBroker
from tests.broker.transactional_client import TRANSACTION, Transactional, find_coordinator

ID_REFUSED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
TOPIC_REFUSED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
GROUP_REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED
CLUSTER_REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.fixture
def transactional_id(topic: str) -> str:
    return f"id of {topic}"


@pytest.fixture
def allowed(secured: SecuredBroker, topic: str, transactional_id: str) -> None:
    """Alice may run transactions under her id, on the topic."""
    secured.allow(Op.WRITE, Of.TRANSACTIONAL_ID, transactional_id)
    secured.allow(Op.WRITE, Of.TOPIC, topic)


def begun(client: RawClient, transactional_id: str, *, is_v2: bool = True) -> Transactional:
    producer = Transactional(client, transactional_id, is_v2=is_v2)
    assert find_coordinator(client, transactional_id, TRANSACTION).error_code == 0
    assert producer.init().error_code == 0
    return producer


def find(client: RawClient, key: str) -> int:
    code: int = find_coordinator(client, key, TRANSACTION).error_code
    return code


def test_without_write_the_transactional_id_is_found_and_not_initialized(
    secured: SecuredBroker, alice: RawClient, transactional_id: str
) -> None:
    secured.allow(Op.DESCRIBE, Of.TRANSACTIONAL_ID, transactional_id)
    assert find(alice, transactional_id) == 0
    assert Transactional(alice, transactional_id).init().error_code == ID_REFUSED


def test_without_describe_the_coordinator_of_a_transactional_id_is_not_told(
    secured: SecuredBroker, alice: RawClient, transactional_id: str
) -> None:
    assert find(alice, transactional_id) == ID_REFUSED


@pytest.mark.parametrize(
    ("operation", "kind", "name", "expected"),
    [
        (Op.IDEMPOTENT_WRITE, Of.CLUSTER, "kafka-cluster", 0),
        (Op.WRITE, Of.TOPIC, "any topic", 0),
        (Op.READ, Of.TOPIC, "any topic", CLUSTER_REFUSED),
        (Op.WRITE, Of.GROUP, "any group", CLUSTER_REFUSED),
    ],
)
def test_an_idempotent_producer_needs_idempotent_write_or_some_topic_to_write_to(
    secured: SecuredBroker, alice: RawClient, operation: Op, kind: Of, name: str, expected: int
) -> None:
    secured.allow(operation, kind, name)
    answer = alice.call(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(None, 0))
    assert answer.error_code == expected


def test_an_idempotent_producer_without_write_is_refused_its_batch(
    secured: SecuredBroker, alice: RawClient, topic: str
) -> None:
    secured.allow(Op.IDEMPOTENT_WRITE, Of.CLUSTER)
    answer = alice.call(ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest(None, 0))
    records = batch(b"a", producer_id=answer.producer_id, producer_epoch=0, base_sequence=0)
    assert alice.produce(topic, records).error_code == TOPIC_REFUSED


@pytest.mark.parametrize("is_v2", [False, True])
@pytest.mark.usefixtures("allowed")
def test_a_producer_that_loses_its_transactional_id_is_refused_its_next_batch(
    secured: SecuredBroker, alice: RawClient, topic: str, transactional_id: str, is_v2: bool
) -> None:
    producer = begun(alice, transactional_id, is_v2=is_v2)
    if not is_v2:
        assert producer.add(topic, 0) == [0]
    assert producer.produce(topic, b"a").error_code == 0
    secured.deny(Op.WRITE, Of.TRANSACTIONAL_ID, transactional_id)
    assert producer.produce(topic, b"b").error_code == ID_REFUSED
    if not is_v2:
        assert producer.add(topic, 0) == [ID_REFUSED]


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.usefixtures("allowed")
def test_a_producer_that_loses_its_transactional_id_cannot_end_the_transaction(
    secured: SecuredBroker, alice: RawClient, topic: str, transactional_id: str, committed: bool
) -> None:
    producer = begun(alice, transactional_id)
    assert producer.produce(topic, b"a").error_code == 0
    secured.deny(Op.WRITE, Of.TRANSACTIONAL_ID, transactional_id)
    assert producer.end(committed=committed).error_code == ID_REFUSED
    secured.forget_rules()
    secured.allow(Op.WRITE, Of.TRANSACTIONAL_ID, transactional_id)
    assert producer.end(committed=committed).error_code == 0


@pytest.mark.parametrize("version", range(6))
@pytest.mark.usefixtures("allowed")
def test_offsets_of_a_transaction_need_the_id_the_group_and_the_topic(
    secured: SecuredBroker, alice: RawClient, topic: str, transactional_id: str, version: int
) -> None:
    group = f"group of {topic}"
    producer = begun(alice, transactional_id)
    assert producer.add_offsets(group) == GROUP_REFUSED
    assert producer.commit_offset(group, topic, 1, version=version) == GROUP_REFUSED
    secured.allow(Op.READ, Of.GROUP, group)
    find_coordinator(alice, group, 0)
    assert producer.add_offsets(group) == 0
    assert producer.commit_offset(group, topic, 1, version=version) == TOPIC_REFUSED
    secured.allow(Op.READ, Of.TOPIC, topic)
    assert producer.commit_offset(group, topic, 1, version=version) == 0
    secured.deny(Op.WRITE, Of.TRANSACTIONAL_ID, transactional_id)
    assert producer.add_offsets(group) == ID_REFUSED
    assert producer.commit_offset(group, topic, 1, version=version) == ID_REFUSED


@pytest.mark.parametrize("is_v2", [False, True])
@pytest.mark.usefixtures("allowed")
def test_a_transaction_that_was_refused_a_topic_can_be_aborted(
    secured: SecuredBroker, root: RawClient, alice: RawClient, topic: str, transactional_id: str, is_v2: bool
) -> None:
    other = root.create_topic(f"{topic}-other")
    producer = begun(alice, transactional_id, is_v2=is_v2)
    if is_v2:
        assert producer.produce(topic, b"a").error_code == 0
        assert producer.produce(other, b"b").error_code == TOPIC_REFUSED
    else:
        assert producer.add(topic, 0) == [0]
        assert producer.produce(topic, b"a").error_code == 0
        assert producer.add(other, 0) == [TOPIC_REFUSED]
    assert producer.end(committed=False).error_code == 0


@pytest.mark.usefixtures("allowed")
def test_one_topic_that_is_refused_spoils_the_adding_of_all(
    secured: SecuredBroker, root: RawClient, alice: RawClient, topic: str, transactional_id: str
) -> None:
    other = root.create_topic(f"{topic}-other")
    producer = begun(alice, transactional_id, is_v2=False)
    topics = [AddPartitionsToTxnTopic(name, [0]) for name in (topic, other, "is not there")]
    request = AddPartitionsToTxnRequest([], transactional_id, producer.producer_id, producer.epoch, topics)
    answer = alice.call(ApiKey.ADD_PARTITIONS_TO_TXN, 3, request).results_by_topic_v3_and_below
    codes = [(told.name, told.results_by_partition[0].partition_error_code) for told in answer]
    assert codes == [
        (topic, ErrorCode.OPERATION_NOT_ATTEMPTED),
        (other, TOPIC_REFUSED),
        ("is not there", TOPIC_REFUSED),
    ]


@pytest.mark.usefixtures("allowed")
def test_a_transaction_is_described_without_topics_that_the_client_may_not_describe(
    secured: SecuredBroker, root: RawClient, alice: RawClient, topic: str, transactional_id: str
) -> None:
    hidden = root.create_topic(f"{topic}-hidden")
    producer = begun(root, transactional_id)
    assert producer.produce(topic, b"a").error_code == 0
    assert producer.produce(hidden, b"a").error_code == 0

    def described(client: RawClient) -> Any:
        request = DescribeTransactionsRequest([transactional_id, "another"])
        return client.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, request).transaction_states

    told, refused = described(alice)
    assert [found.topic for found in told.topics] == [topic]
    assert (refused.transactional_id, refused.error_code, refused.topics) == ("another", ID_REFUSED, [])
    assert sorted(found.topic for found in described(root)[0].topics) == sorted([topic, hidden])
    assert producer.end(committed=False).error_code == 0


@pytest.mark.parametrize("version", range(3))
@pytest.mark.usefixtures("allowed")
def test_transactional_ids_that_the_client_may_not_describe_are_not_listed(
    secured: SecuredBroker, root: RawClient, alice: RawClient, topic: str, transactional_id: str, version: int
) -> None:
    hidden = f"{transactional_id} hidden"
    for each in (transactional_id, hidden):
        begun(root, each)

    def listed(client: RawClient) -> set[str]:
        answer = client.call(ApiKey.LIST_TRANSACTIONS, version, ListTransactionsRequest())
        return {
            state.transactional_id for state in answer.transaction_states if state.transactional_id.startswith("id")
        }

    assert {transactional_id, hidden} <= listed(root)
    assert listed(alice) == {transactional_id}


@pytest.mark.parametrize("version", range(3, 14))
def test_cve_2018_17196_a_batch_belongs_to_the_transactional_id_that_the_request_names(
    secured: SecuredBroker, root: RawClient, alice: RawClient, topic: str, transactional_id: str, version: int
) -> None:
    """Without the check a client with WRITE on the topic alone could write into the transaction of any producer."""
    victim = begun(root, transactional_id)
    own = f"alice's {transactional_id}"
    secured.allow(Op.WRITE, Of.TOPIC, topic)
    secured.allow(Op.WRITE, Of.TRANSACTIONAL_ID, own)
    stolen = batch(
        b"stolen", producer_id=victim.producer_id, producer_epoch=victim.epoch, base_sequence=0, is_transactional=True
    )

    def write(named: str | None) -> int:
        request = produce_request(topic, stolen)
        request.transactional_id = named
        if version >= 13:
            request.topic_data[0].topic_id = secured.node.image.topics[topic].id
        ((answer,),) = (
            answered.partition_responses for answered in alice.call(ApiKey.PRODUCE, version, request).responses
        )
        code: int = answer.error_code
        return code

    assert write(None) == ID_REFUSED
    assert write(transactional_id) == ID_REFUSED
    begun(alice, own)
    # Her own id is allowed, and the producer id is another's.
    assert write(own) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert [record.value for record in secured.broker.committed(topic)] == []


def test_a_super_user_needs_no_rule(secured: SecuredBroker, root: RawClient, topic: str) -> None:
    assert begun(root, f"root's {topic}").produce(topic, b"a").error_code == 0
    assert secured.client(ALICE).produce(topic, batch(b"a")).error_code == TOPIC_REFUSED
