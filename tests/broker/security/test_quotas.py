"""AlterClientQuotas and DescribeClientQuotas of a running broker, asked by our own admin client."""

from __future__ import annotations

from semel.admin import QuotaEntity, Quoted
from semel.blocking import Admin
from semel.errors import ErrorCode
from semel.testing import Broker
from semel.types import INT32_MAX
from semel.wire.apis import ApiKey
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.metadata import MetadataRequest
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.broker.raw_client import RawClient, batch, produce_request

ALICE = QuotaEntity(user="alice")
APP = QuotaEntity(user="alice", client_id="app")
OTHERS = QuotaEntity(client_id=Quoted.DEFAULT)


def test_quotas_are_set_described_removed_and_survive_a_crash() -> None:
    with Broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            set_now = {
                ALICE: {"producer_byte_rate": 1000.0},
                APP: {"request_percentage": 12.5},
                OTHERS: {"consumer_byte_rate": 5.0},
            }
            assert admin.quotas.alter(set_now).failed == {}
            checked = admin.quotas.alter({ALICE: {"producer_byte_rate": 7.0}}, validate_only=True)
            assert checked.failed == {}
            refused = admin.quotas.alter({ALICE: {"nonsense": 1.0}, APP: {"request_percentage": None}})
            assert {entity: error.code for entity, error in refused.failed.items()} == {
                ALICE: ErrorCode.INVALID_REQUEST
            }
        broker.restart(kill=True)
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            assert admin.quotas.describe() == {
                ALICE: {"producer_byte_rate": 1000.0},
                OTHERS: {"consumer_byte_rate": 5.0},
            }
            assert admin.quotas.describe(QuotaEntity(user=Quoted.ANY)) == {ALICE: {"producer_byte_rate": 1000.0}}


def test_a_throttle_time_is_told_to_its_client_alone_although_the_answer_is_one_that_is_kept() -> None:
    with Broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.quotas.alter(
                {QuotaEntity(user="ANONYMOUS", client_id="busy"): {"request_percentage": 0.000001}}
            ).all()
        told = {}
        for client_id in ("busy", "busy", "calm"):
            with RawClient(broker.port) as client:
                client.client_id = client_id
                told[client_id] = client.call(ApiKey.METADATA, 12, MetadataRequest(topics=None)).throttle_time_ms
        assert told == {"busy": 1000, "calm": 0}


def test_an_address_over_its_quota_is_refused_before_it_is_read() -> None:
    with Broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.quotas.alter({QuotaEntity(ip="127.0.0.1"): {"connection_creation_rate": 1.0}}).all()
        refused = 0
        for _ in range(15):
            with RawClient(broker.port) as client:
                try:
                    client.call(ApiKey.METADATA, 12, MetadataRequest(topics=None))
                except OSError:
                    refused += 1
        assert 0 < refused <= 5, "of fifteen, at one a second, after ten silent seconds"


def test_a_producer_that_wants_no_answer_is_muted_too() -> None:
    with Broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.quotas.alter({OTHERS: {"producer_byte_rate": 10.0}}).all()
        with RawClient(broker.port) as client:
            topic = client.create_topic("orders")
            client.send(ApiKey.PRODUCE, 9, produce_request(topic, batch(b"x" * 10_000), acks=0))
            client.send(ApiKey.METADATA, 12, MetadataRequest(topics=None))
            assert not client.has_answer(within_s=0.2)


def test_a_throttle_time_that_no_response_can_tell_is_cut() -> None:
    with Broker() as broker:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.quotas.alter(
                {
                    QuotaEntity(client_id="slow"): {"producer_byte_rate": 1.0},
                    QuotaEntity(client_id="idle"): {"request_percentage": 1e-310},
                    QuotaEntity(client_id="still"): {"controller_mutation_rate": 1e-310},
                }
            ).all()
        with RawClient(broker.port) as client:
            topic = client.create_topic("orders", partitions=3)
            client.client_id = "slow"
            three = [PartitionProduceData(partition, batch(b"x" * 900_000)) for partition in range(3)]
            produced = [TopicProduceData(name=topic, partition_data=three)]
            message = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=produced)
            answer = client.call(ApiKey.PRODUCE, 9, message)
            assert [data.error_code for data in answer.responses[0].partition_responses] == [0, 0, 0]
            assert answer.throttle_time_ms == INT32_MAX
        told = []
        for _ in range(2):
            with RawClient(broker.port) as client:
                client.client_id = "idle"
                told.append(client.call(ApiKey.METADATA, 12, MetadataRequest(topics=None)).throttle_time_ms)
        assert told[-1] == 1000
        told = []
        for name in ("payments", "refunds"):
            with RawClient(broker.port) as client:
                client.client_id = "still"
                topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1)]
                created = CreateTopicsRequest(topics=topics)
                told.append(client.call(ApiKey.CREATE_TOPICS, 7, created).throttle_time_ms)
        assert told == [0, INT32_MAX]
