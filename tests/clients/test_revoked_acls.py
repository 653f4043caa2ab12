"""A right that is taken away in the middle of a transaction: the producer hears of it, can abort, and goes on.

Kafka's own test of this is ``shouldSuccessfullyAbortTransactionAfterTopicAuthorizationException``.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.errors
import pytest

from semel import blocking
from semel.admin import AclBinding, AclFilter, AclOperation, AclResourceType
from semel.errors import ErrorCode, KafkaError
from semel.testing import Broker
from tests.clients.java_producer import JavaProducer, java_login
from tools.patience import PATIENCE_S

USERS = {"alice": "alice's", "admin": "admin's"}
ALICE = "User:alice"
KEPT, LOST = "kept", "lost"
NEEDED = [
    AclBinding(AclResourceType.TOPIC, KEPT, ALICE, AclOperation.WRITE),
    AclBinding(AclResourceType.TOPIC, LOST, ALICE, AclOperation.WRITE),
    AclBinding(AclResourceType.TRANSACTIONAL_ID, "tills", ALICE, AclOperation.WRITE),
]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(users=USERS, acls=NEEDED, super_users="User:admin") as running:
        with administrator(running) as admin:
            for topic in (KEPT, LOST):
                admin.topics.create(topic)
        yield running


def administrator(broker: Broker) -> blocking.Admin:
    return blocking.Admin(bootstrap_servers=broker.bootstrap_servers, **broker.client_security_of("admin"))


def take_away(broker: Broker) -> None:
    with administrator(broker) as admin:
        matching = AclFilter(AclResourceType.TOPIC, LOST, ALICE)
        assert len(admin.acls.delete([matching]).all()[matching]) == 1


# Each writes to both topics in a transaction, loses the right to one of them, is told so, aborts, and commits another.


def own(broker: Broker) -> None:
    with blocking.Producer(
        bootstrap_servers=broker.bootstrap_servers, transactional_id="tills", **broker.client_security_of("alice")
    ) as producer:
        producer.begin()
        for topic in (KEPT, LOST):
            producer.send(topic, b"aborted").result(PATIENCE_S)
        take_away(broker)
        with pytest.raises(KafkaError) as refused:
            producer.send(LOST, b"refused").result(PATIENCE_S)
        assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        producer.abort()
        producer.begin()
        producer.send(KEPT, b"committed").result(PATIENCE_S)
        producer.commit()


def confluent(broker: Broker) -> None:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": "tills",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "alice",
            "sasl.password": USERS["alice"],
        }
    )
    told: list[Any] = []

    def send(topic: str, value: bytes) -> None:
        producer.produce(topic, value, on_delivery=lambda error, _: told.append(error))
        producer.flush(PATIENCE_S)

    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    send(KEPT, b"aborted")
    send(LOST, b"aborted")
    assert told == [None, None]
    take_away(broker)
    send(LOST, b"refused")
    assert told[-1].code() == confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED
    producer.abort_transaction(PATIENCE_S)
    producer.begin_transaction()
    send(KEPT, b"committed")
    producer.commit_transaction(PATIENCE_S)


def kafka_python(broker: Broker) -> None:
    producer = kafka.KafkaProducer(
        bootstrap_servers=broker.bootstrap_servers,
        transactional_id="tills",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="SCRAM-SHA-512",
        sasl_plain_username="alice",
        sasl_plain_password=USERS["alice"],
    )
    producer.init_transactions()
    producer.begin_transaction()
    for topic in (KEPT, LOST):
        producer.send(topic, b"aborted").get(PATIENCE_S)
    take_away(broker)
    with pytest.raises(kafka.errors.TopicAuthorizationFailedError):
        producer.send(LOST, b"refused").get(PATIENCE_S)
    producer.abort_transaction()
    producer.begin_transaction()
    producer.send(KEPT, b"committed").get(PATIENCE_S)
    producer.commit_transaction()
    producer.close()


def aio(broker: Broker) -> None:
    async def run() -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap_servers,
            transactional_id="tills",
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="SCRAM-SHA-512",
            sasl_plain_username="alice",
            sasl_plain_password=USERS["alice"],
        )
        await producer.start()
        try:
            await producer.begin_transaction()
            for topic in (KEPT, LOST):
                await producer.send_and_wait(topic, b"aborted")
            await asyncio.to_thread(take_away, broker)
            with pytest.raises(aiokafka.errors.TopicAuthorizationFailedError):
                await producer.send_and_wait(LOST, b"refused")
            await producer.abort_transaction()
            await producer.begin_transaction()
            await producer.send_and_wait(KEPT, b"committed")
            await producer.commit_transaction()
        finally:
            await producer.stop()

    asyncio.run(run())


def java(broker: Broker) -> None:
    settings = {
        **java_login("SCRAM-SHA-512", USERS["alice"]),
        "bootstrap.servers": broker.bootstrap_servers,
        "transactional.id": "tills",
    }
    with (
        tempfile.TemporaryDirectory(prefix="semel-java-") as folder,
        JavaProducer(Path(folder), settings, "transaction", KEPT, LOST) as producer,
    ):
        assert producer.line() == "WRITTEN"
        take_away(broker)
        producer.go_on()
        assert producer.line() == "COMMITTED"


@pytest.mark.parametrize(
    "client",
    [
        own,
        confluent,
        kafka_python,
        aio,
        pytest.param(java, marks=[pytest.mark.kafka, pytest.mark.needs("kafka", "javac")]),
    ],
    ids=lambda client: client.__name__,
)
def test_a_producer_that_loses_a_right_can_abort_and_goes_on(broker: Broker, client: Callable[[Broker], None]) -> None:
    client(broker)
    assert [record.value for record in broker.committed(KEPT)] == [b"committed"]
    assert broker.committed(LOST) == []
    assert not broker.has_open_transaction(LOST)
