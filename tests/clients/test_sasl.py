"""SASL with the clients that people have: every mechanism, the right password and a wrong one, sessions that end."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import tempfile
import threading
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
from semel.errors import AuthorizationFailed
from semel.testing import Broker
from tests.broker.security.sasl_listener import ALICE, sasl_broker
from tests.clients.java_producer import JavaProducer, java_login, write_properties
from tools.brokers import JavaFailed, run_java
from tools.patience import PATIENCE_MS, PATIENCE_S, wait_until

MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
SETTINGS = {"sasl_enabled_mechanisms": ",".join(MECHANISMS), "sasl_plain_without_tls": True}
_names = itertools.count()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with sasl_broker(**SETTINGS) as running:
        yield running


# One round trip with each client: send one record, read it back. Raises what the client raises.


def own(servers: str, mechanism: str, password: str, topic: str) -> bytes:
    settings: dict[str, Any] = {
        "bootstrap_servers": servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_username": "alice",
        "sasl_password": password,
    }
    with blocking.Producer(**settings) as producer:
        producer.send(topic, b"value").result()
    with blocking.Consumer(**settings, auto_offset_reset="earliest") as consumer:
        consumer.assign([(topic, 0)])
        (record,) = consumer.poll(PATIENCE_MS)
        return record.value or b""


def confluent_settings(servers: str, mechanism: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": password,
    }


def confluent(servers: str, mechanism: str, password: str, topic: str) -> bytes:
    refused: list[Any] = []
    settings = {**confluent_settings(servers, mechanism, password), "error_cb": refused.append}
    producer = confluent_kafka.Producer(settings)
    told: list[Any] = []
    producer.produce(topic, b"value", on_delivery=lambda error, message: told.append(error))
    while not told and not any(error.code() == confluent_kafka.KafkaError._AUTHENTICATION for error in refused):
        producer.poll(0.05)
    if not told:
        producer.purge()
        raise confluent_kafka.KafkaException(refused[0])
    assert told == [None]
    consumer = confluent_kafka.Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        return message.value() or b""
    finally:
        consumer.close()


def kafka_python_settings(servers: str, mechanism: str, password: str) -> dict[str, Any]:
    """They are aiokafka's, too."""
    return {
        "bootstrap_servers": servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": password,
    }


def kafka_python(servers: str, mechanism: str, password: str, topic: str) -> bytes:
    settings = kafka_python_settings(servers, mechanism, password)
    # It tries again until then, whatever the broker says.
    settings["bootstrap_timeout_ms"] = PATIENCE_MS if password == ALICE else 1_000
    producer = kafka.KafkaProducer(**settings)
    try:
        producer.send(topic, b"value").get(PATIENCE_S)
    finally:
        producer.close(timeout=1)
    consumer = kafka.KafkaConsumer(topic, **settings, auto_offset_reset="earliest", consumer_timeout_ms=PATIENCE_MS)
    try:
        return bytes(next(consumer).value)
    finally:
        consumer.close()


def aio(servers: str, mechanism: str, password: str, topic: str) -> bytes:
    settings = kafka_python_settings(servers, mechanism, password)

    async def round_trip() -> bytes:
        producer = aiokafka.AIOKafkaProducer(**settings)
        try:
            await producer.start()
            await producer.send_and_wait(topic, b"value")
        finally:
            await producer.stop()
        consumer = aiokafka.AIOKafkaConsumer(topic, **settings, auto_offset_reset="earliest")
        try:
            await consumer.start()
            return bytes((await asyncio.wait_for(consumer.getone(), PATIENCE_S)).value)
        finally:
            await consumer.stop()

    return asyncio.run(round_trip())


def kcat(servers: str, mechanism: str, password: str, topic: str) -> bytes:
    settings = confluent_settings(servers, mechanism, password)
    options = [part for name, value in settings.items() for part in ("-X", f"{name}={value}")]

    def run(*arguments: str, stdin: bytes = b"") -> bytes:
        command = ["kcat", *options, "-t", topic, *arguments]
        return subprocess.run(command, input=stdin, capture_output=True, check=True).stdout

    run("-P", stdin=b"value")
    return run("-C", "-o", "beginning", "-c", "1", "-q").strip()


def java(servers: str, mechanism: str, password: str, topic: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file, payload = Path(folder, "client.properties"), Path(folder, "payload.txt")
        write_properties(file, java_login(mechanism, password))
        payload.write_bytes(b"value\n")
        where = ["--bootstrap-server", servers, "--topic", topic, "--command-config", str(file)]
        sending = ["--num-records", "1", "--payload-file", str(payload), "--throughput", "-1"]
        output = run_java("org.apache.kafka.tools.ProducerPerformance", [*where, *sending])
        if "1 records sent" not in output or "Exception" in output:
            raise JavaFailed("not sent", output)
        reading = ["--from-beginning", "--max-messages", "1", "--timeout-ms", str(PATIENCE_MS)]
        lines = run_java("org.apache.kafka.tools.consumer.ConsoleConsumer", [*where, *reading]).splitlines()
        return next(line for line in lines if line == "value").encode()


REFUSALS = [
    pytest.param(own, AuthorizationFailed, id="semel"),
    pytest.param(confluent, confluent_kafka.KafkaException, id="confluent"),
    pytest.param(kafka_python, kafka.errors.KafkaError, id="kafka-python"),
    pytest.param(aio, aiokafka.errors.KafkaError, id="aiokafka"),
    pytest.param(java, JavaFailed, id="java", marks=[pytest.mark.kafka, pytest.mark.needs("kafka")]),
]


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("client", "_refusal"), REFUSALS)
def test_a_client_with_the_right_password_is_served(
    broker: Broker, client: Callable[[str, str, str, str], bytes], _refusal: object, mechanism: str
) -> None:
    assert client(broker.bootstrap_servers, mechanism, ALICE, f"topic-{next(_names)}") == b"value"


class RefusedLogins:
    """In the place of the audit log, while a test runs."""

    def __init__(self, broker: Broker) -> None:
        self.logins: list[tuple[str, str | None, str]] = []
        assert broker._broker is not None
        self._node: Any = broker._broker.node

    def __enter__(self) -> RefusedLogins:
        self._node.audit = self
        return self

    def __exit__(self, *exception: object) -> None:
        self._node.audit = None

    def login_refused(self, host: str, *, mechanism: str, user: str | None, reason: str) -> None:
        self.logins.append((mechanism, user, reason))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("client", "refusal"), REFUSALS)
def test_a_client_with_a_wrong_password_is_not(
    broker: Broker,
    client: Callable[[str, str, str, str], bytes],
    refusal: type[BaseException],
    mechanism: str,
) -> None:
    with RefusedLogins(broker) as refused, pytest.raises(refusal):
        client(broker.bootstrap_servers, mechanism, "wrong", f"topic-{next(_names)}")
    assert set(refused.logins) == {(mechanism, "alice", "wrong user or password")}


@pytest.mark.needs("kcat")
def test_kcat_logs_in_with_a_password(broker: Broker) -> None:
    """With PLAIN: before librdkafka 2.6.1 its nonce of SCRAM is one that neither Kafka 4 nor this broker takes."""
    topic = f"topic-{next(_names)}"
    assert kcat(broker.bootstrap_servers, "PLAIN", ALICE, topic) == b"value"
    with pytest.raises(subprocess.CalledProcessError) as refused:
        kcat(broker.bootstrap_servers, "PLAIN", "wrong", topic)
    assert b"Authentication failed" in refused.value.stderr


# Sessions that end, under load (KIP-368)

REAUTHENTICATIONS = 3


@pytest.fixture(scope="module")
def sessions() -> Iterator[Broker]:
    with sasl_broker(**SETTINGS, connections_max_reauth_ms=1_500) as running:
        yield running


class Handshakes:
    """How often clients have begun to prove who they are."""

    def __init__(self, broker: Broker) -> None:
        assert broker._broker is not None
        self._time = broker._broker.metrics.requests("SaslHandshake")
        self._connections = broker._broker.metrics.connections_accepted
        self._before = self._time.count, self._connections.value

    @property
    def again(self) -> int:
        """Those on connections that had proven it before."""
        return self._time.count - self._before[0] - self.connections

    @property
    def connections(self) -> int:
        return int(self._connections.value - self._before[1])


def test_our_client_proves_again_who_it_is_under_load(sessions: Broker) -> None:
    topic = f"topic-{next(_names)}"
    handshakes = Handshakes(sessions)
    settings: dict[str, Any] = {
        "bootstrap_servers": sessions.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "alice",
        "sasl_password": ALICE,
    }
    sent: list[Any] = []
    with blocking.Producer(**settings) as producer:
        while handshakes.again < REAUTHENTICATIONS:
            sent += [producer.send(topic, str(len(sent) + at).encode()) for at in range(20)]
            sent[-1].result()
        for future in sent:
            future.result()
    assert [record.value for record in sessions.committed(topic, 0)] == [str(at).encode() for at in range(len(sent))]


def test_librdkafka_proves_again_who_it_is_under_load(sessions: Broker) -> None:
    topic = f"topic-{next(_names)}"
    handshakes = Handshakes(sessions)
    failed: list[Any] = []
    producer = confluent_kafka.Producer(
        {**confluent_settings(sessions.bootstrap_servers, "SCRAM-SHA-256", ALICE), "enable.idempotence": True}
    )
    count = 0
    acknowledged = threading.Semaphore(0)

    def told(error: Any, message: Any) -> None:
        if error is not None:
            failed.append(error)
        acknowledged.release()

    while handshakes.again < REAUTHENTICATIONS:
        for _ in range(20):
            producer.produce(topic, str(count).encode(), on_delivery=told)
            count += 1
        producer.flush(PATIENCE_S)
    assert failed == []
    assert [record.value for record in sessions.committed(topic, 0)] == [str(at).encode() for at in range(count)]


@pytest.mark.kafka
@pytest.mark.needs("kafka", "javac")
def test_kafkas_client_proves_again_who_it_is_under_load(sessions: Broker, tmp_path: Path) -> None:
    topic = f"topic-{next(_names)}"
    handshakes = Handshakes(sessions)
    settings = java_login("SCRAM-SHA-512", ALICE) | {"bootstrap.servers": sessions.bootstrap_servers}
    with JavaProducer(tmp_path, settings, "load", topic) as producer:
        wait_until(lambda: handshakes.again >= REAUTHENTICATIONS, "it has not proven again who it is")
        producer.go_on()
        name, _, count = producer.line().partition(" ")
    assert name == "SENT"
    assert [record.value for record in sessions.committed(topic, 0)] == [str(at).encode() for at in range(int(count))]


def test_kafka_python_proves_again_who_it_is_under_load(sessions: Broker) -> None:
    topic = f"topic-{next(_names)}"
    handshakes = Handshakes(sessions)
    settings = kafka_python_settings(sessions.bootstrap_servers, "SCRAM-SHA-512", ALICE)
    producer = kafka.KafkaProducer(**settings, enable_idempotence=True)
    count = 0
    while handshakes.again < REAUTHENTICATIONS:
        for future in [producer.send(topic, str(count + at).encode(), partition=0) for at in range(20)]:
            future.get(PATIENCE_S)
        count += 20
    producer.close()
    assert [record.value for record in sessions.committed(topic, 0)] == [str(at).encode() for at in range(count)]


# More than a producer has at first.
CONNECTIONS = 6


def test_aiokafka_connects_again_when_its_session_ends(sessions: Broker) -> None:
    """It does not know KIP-368: its connection is closed, and an idempotent producer loses nothing by it."""
    topic = f"topic-{next(_names)}"
    handshakes = Handshakes(sessions)
    settings = kafka_python_settings(sessions.bootstrap_servers, "SCRAM-SHA-512", ALICE)

    async def send() -> int:
        count = 0
        async with aiokafka.AIOKafkaProducer(**settings, enable_idempotence=True) as producer:
            while handshakes.connections < CONNECTIONS:
                values = [str(count + at).encode() for at in range(20)]
                await asyncio.gather(*[await producer.send(topic, value, partition=0) for value in values])
                count += 20
        return count

    count = asyncio.run(send())
    assert [record.value for record in sessions.committed(topic, 0)] == [str(at).encode() for at in range(count)]
