"""The same two actions in every client, over whatever security the settings ask for: write a record, read all."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka

from semel import blocking
from semel.errors import SemelError
from tools.brokers import JavaFailed, run_java
from tools.patience import PATIENCE_MS, PATIENCE_S

# After this time a client that is not let in gives up. All of them try again and again until then.
GIVE_UP_S: Final = 3.0


class Refused(Exception):
    """The client could not connect."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a client trusts, and what it shows: PEM files. ``identity`` has a key and its certificates."""

    authority: Path
    identity: Path | None = None

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.authority))
        if self.identity is not None:
            context.load_cert_chain(self.identity)
        return context


@dataclass(frozen=True, slots=True)
class SecuredClient:
    """``write`` and ``read`` take bootstrap servers, topic and identity. Both raise ``Refused``."""

    name: str
    write: Callable[[str, str, Identity, bytes], None]
    read: Callable[[str, str, Identity, int], list[bytes]]


def _ours(identity: Identity) -> dict[str, Any]:
    own = {} if identity.identity is None else {"ssl_keystore_location": str(identity.identity)}
    return {"security_protocol": "SSL", "ssl_truststore_location": str(identity.authority), **own}


def _semel_write(servers: str, topic: str, identity: Identity, value: bytes) -> None:
    give_up_ms = int(GIVE_UP_S * 1000)
    limits = {"delivery_timeout_ms": give_up_ms, "request_timeout_ms": give_up_ms, "linger_ms": 0}
    try:
        with blocking.Producer(
            bootstrap_servers=servers, max_block_ms=give_up_ms, **limits, **_ours(identity)
        ) as producer:
            producer.send(topic, value).result(PATIENCE_S)
    except SemelError as error:
        raise Refused(str(error)) from error


def _semel_read(servers: str, topic: str, identity: Identity, count: int) -> list[bytes]:
    values: list[bytes] = []
    with blocking.Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", **_ours(identity)) as consumer:
        consumer.assign([(topic, 0)])
        while len(values) < count:
            values += [record.value for record in consumer.poll(timeout_ms=PATIENCE_MS)]
    return values


def _librdkafka(identity: Identity) -> dict[str, str]:
    own = {}
    if identity.identity is not None:
        own = {"ssl.key.location": str(identity.identity), "ssl.certificate.location": str(identity.identity)}
    return {"security.protocol": "ssl", "ssl.ca.location": str(identity.authority), **own}


def _confluent_write(servers: str, topic: str, identity: Identity, value: bytes) -> None:
    refusals: list[object] = []
    failures: list[object] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": servers,
            "message.timeout.ms": int(GIVE_UP_S * 1000),
            "error_cb": refusals.append,
            **_librdkafka(identity),
        }
    )
    producer.produce(topic, value, on_delivery=lambda error, _: failures.append(error) if error else None)
    producer.flush(PATIENCE_S)
    if failures:
        raise Refused(f"{failures} {refusals}")


def _confluent_read(servers: str, topic: str, identity: Identity, count: int) -> list[bytes]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": uuid.uuid4().hex, **_librdkafka(identity)}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    values = [message.value() for message in consumer.consume(count, PATIENCE_S)]
    consumer.close()
    return values


def _kafka_python(servers: str, identity: Identity) -> dict[str, Any]:
    return {"bootstrap_servers": servers, "security_protocol": "SSL", "ssl_context": identity.context()}


def _kafka_python_write(servers: str, topic: str, identity: Identity, value: bytes) -> None:
    limits = {"bootstrap_timeout_ms": int(GIVE_UP_S * 1000), "max_block_ms": int(GIVE_UP_S * 1000)}
    try:
        producer = kafka.KafkaProducer(**_kafka_python(servers, identity), **limits)
        producer.send(topic, value).get(PATIENCE_S)
        producer.close(timeout=1)
    except kafka.errors.KafkaError as error:
        raise Refused(repr(error)) from error


def _kafka_python_read(servers: str, topic: str, identity: Identity, count: int) -> list[bytes]:
    consumer = kafka.KafkaConsumer(**_kafka_python(servers, identity), auto_offset_reset="earliest")
    consumer.assign([kafka.TopicPartition(topic, 0)])
    values = [record.value for _, record in zip(range(count), consumer, strict=False)]
    consumer.close()
    return values


def _aiokafka(servers: str, identity: Identity) -> dict[str, Any]:
    return {"bootstrap_servers": servers, "security_protocol": "SSL", "ssl_context": identity.context()}


def _aiokafka_write(servers: str, topic: str, identity: Identity, value: bytes) -> None:
    async def write() -> None:
        producer = aiokafka.AIOKafkaProducer(**_aiokafka(servers, identity))
        try:
            await producer.start()
            await producer.send_and_wait(topic, value)
        finally:
            await producer.stop()

    try:
        asyncio.run(write())
    except aiokafka.errors.KafkaError as error:
        raise Refused(repr(error)) from error


def _aiokafka_read(servers: str, topic: str, identity: Identity, count: int) -> list[bytes]:
    async def read() -> list[bytes]:
        consumer = aiokafka.AIOKafkaConsumer(**_aiokafka(servers, identity), auto_offset_reset="earliest")
        consumer.assign([aiokafka.TopicPartition(topic, 0)])
        await consumer.start()
        try:
            return [(await consumer.getone()).value for _ in range(count)]
        finally:
            await consumer.stop()

    return asyncio.run(read())


def _kcat(servers: str, identity: Identity, *arguments: str, stdin: bytes = b"") -> bytes:
    settings = {**_librdkafka(identity), "message.timeout.ms": str(int(GIVE_UP_S * 1000)), "fetch.wait.max.ms": "20"}
    if "-C" in arguments:
        del settings["message.timeout.ms"]
    options = [part for name, value in settings.items() for part in ("-X", f"{name}={value}")]
    command = ["kcat", "-b", servers, *options, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=PATIENCE_S, check=False)
    if done.returncode:
        raise Refused(done.stderr.decode())
    return done.stdout


def _kcat_write(servers: str, topic: str, identity: Identity, value: bytes) -> None:
    _kcat(servers, identity, "-P", "-t", topic, stdin=value)


def _kcat_read(servers: str, topic: str, identity: Identity, count: int) -> list[bytes]:
    return _kcat(servers, identity, "-C", "-t", topic, "-o", "beginning", "-c", str(count), "-q").splitlines()


def java_settings(identity: Identity) -> Mapping[str, str]:
    own = {}
    if identity.identity is not None:
        own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(identity.identity)}
    return {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(identity.authority),
        **own,
    }


def _java_write(servers: str, topic: str, identity: Identity, value: bytes) -> None:
    payload = identity.authority.with_name("payload.txt")
    payload.write_bytes(value)
    # It gives up at the first handshake that fails.
    properties = {"bootstrap.servers": servers, "max.block.ms": str(PATIENCE_MS), **java_settings(identity)}
    arguments = ["--topic", topic, "--num-records", "1", "--payload-file", str(payload), "--throughput", "-1"]
    arguments += ["--producer-props", *(f"{name}={text}" for name, text in properties.items())]
    try:
        output = run_java("org.apache.kafka.tools.ProducerPerformance", arguments)
    except JavaFailed as error:
        raise Refused(error.output) from error
    if "1 records sent" not in output or "Exception" in output:
        raise Refused(output)


def _java_read(servers: str, topic: str, identity: Identity, count: int) -> list[bytes]:
    file = identity.authority.with_name("java.properties")
    file.write_text("".join(f"{name}={text}\n" for name, text in java_settings(identity).items()))
    arguments = ["--bootstrap-server", servers, "--topic", topic, "--from-beginning", "--max-messages", str(count)]
    arguments += ["--command-config", str(file), "--timeout-ms", str(PATIENCE_MS)]
    lines = run_java("org.apache.kafka.tools.consumer.ConsoleConsumer", arguments).encode().splitlines()
    # It advertises the new protocol of groups, and says how many it has processed.
    return [line for line in lines if not line.startswith((b"The consumer rebalance protocol", b"Processed a total"))]


PYTHON_CLIENTS: Final = (
    SecuredClient("semel", _semel_write, _semel_read),
    SecuredClient("confluent", _confluent_write, _confluent_read),
    SecuredClient("kafka-python", _kafka_python_write, _kafka_python_read),
    SecuredClient("aiokafka", _aiokafka_write, _aiokafka_read),
)
KCAT: Final = SecuredClient("kcat", _kcat_write, _kcat_read)
JAVA: Final = SecuredClient("java", _java_write, _java_read)
