"""OAUTHBEARER with real clients: tokens that are signed here, by keys in a file that the broker reads."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiokafka
import aiokafka.abc
import confluent_kafka
import kafka
import kafka.net.sasl.oauth
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from semel import blocking
from semel.errors import AuthorizationFailed, ErrorCode
from semel.testing import Broker
from semel.wire.apis import ApiKey
from semel.wire.messages.metadata import MetadataRequest
from semel.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from tests.broker.raw_client import RawClient
from tests.broker.security.sasl_listener import authenticate, handshake
from tests.clients.java_producer import JavaProducer
from tools.patience import PATIENCE_S

pytestmark = pytest.mark.needs("pyjwt")

KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
_names = itertools.count()


@dataclass(frozen=True, slots=True)
class Issuer:
    keys: Path

    def publish(self, name: str) -> None:
        algorithm = importlib.import_module("jwt").algorithms.RSAAlgorithm
        self.keys.write_text(json.dumps({"keys": [{**json.loads(algorithm.to_jwk(KEY.public_key())), "kid": name}]}))

    def token(self, *, lifetime_s: float = 3600, kid: str = "one", **claims: Any) -> str:
        now_s = time.time()
        said = {"sub": "carol", "iss": "issuer", "aud": ["kafka"], "iat": now_s, "exp": now_s + lifetime_s, **claims}
        token: str = importlib.import_module("jwt").encode(said, KEY, algorithm="RS256", headers={"kid": kid})
        return token


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Issuer:
    issuer = Issuer(tmp_path_factory.mktemp("issuer") / "keys.json")
    issuer.publish("one")
    return issuer


@pytest.fixture(scope="module")
def broker(issuer: Issuer) -> Iterator[Broker]:
    with Broker(
        listeners="SASL_PLAINTEXT://127.0.0.1:0",
        sasl_enabled_mechanisms="OAUTHBEARER",
        sasl_oauthbearer_jwks_endpoint_url=issuer.keys.as_uri(),
        sasl_oauthbearer_expected_issuer="issuer",
        sasl_oauthbearer_expected_audience="kafka",
    ) as running:
        yield running


def own(servers: str, token: str, topic: str) -> None:
    with blocking.Producer(
        bootstrap_servers=servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauthbearer_token_provider=lambda: token,
    ) as producer:
        producer.send(topic, b"value").result()


def confluent(servers: str, token: str, topic: str) -> None:
    told: list[Any] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": lambda _: (token, time.time() + 3600),
        }
    )
    producer.produce(topic, b"value", on_delivery=lambda error, message: told.append(error))
    producer.flush(PATIENCE_S)
    assert told == [None]


def kafka_python(servers: str, token: str, topic: str) -> None:
    class Provider(kafka.net.sasl.oauth.AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return token

    producer = kafka.KafkaProducer(
        bootstrap_servers=servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Provider(),
    )
    try:
        producer.send(topic, b"value").get(PATIENCE_S)
    finally:
        producer.close()


def aio(servers: str, token: str, topic: str) -> None:
    class Provider(aiokafka.abc.AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return token

    async def send() -> None:
        async with aiokafka.AIOKafkaProducer(
            bootstrap_servers=servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=Provider(),
        ) as producer:
            await producer.send_and_wait(topic, b"value")

    asyncio.run(send())


def java(servers: str, token: str, topic: str) -> None:
    """Kafka's own client reads its token from a file, if a property of the JVM allows that file."""
    with tempfile.TemporaryDirectory(prefix="semel-java-") as folder:
        file = Path(folder, "token.txt")
        file.write_text(token)
        settings = {
            "bootstrap.servers": servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": file.as_uri(),
            "sasl.oauthbearer.jwt.retriever.class": "org.apache.kafka.common.security.oauthbearer.FileJwtRetriever",
            "sasl.login.callback.handler.class": (
                "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
            ),
            "sasl.jaas.config": ("org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"),
        }
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={file.as_uri()}"
        with JavaProducer(Path(folder), settings, "send", topic, "value", options=[allowed]) as producer:
            assert producer.line() == "SENT 1"


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
def test_a_client_with_a_good_token_is_served(broker: Broker, issuer: Issuer, client: Any) -> None:
    topic = f"topic-{next(_names)}"
    client(broker.bootstrap_servers, issuer.token(), topic)
    assert [record.value for record in broker.committed(topic)] == [b"value"]


@pytest.mark.parametrize(
    "claims", [{"iss": "another"}, {"aud": "others"}, {"exp": 1}, {"sub": ""}, {"kid": "unknown"}], ids=str
)
def test_a_client_with_another_token_is_not(broker: Broker, issuer: Issuer, claims: dict[str, Any]) -> None:
    with pytest.raises(AuthorizationFailed, match="invalid_token"):
        own(broker.bootstrap_servers, issuer.token(**claims), "refused")


def test_a_token_is_believed_as_long_as_it_says_and_no_longer(broker: Broker, issuer: Issuer) -> None:
    with RawClient(broker.port) as client:
        handshake(client, "OAUTHBEARER")
        answer = authenticate(client, _first(issuer.token(lifetime_s=600)))
        assert 0 < answer.session_lifetime_ms <= 600_000
        client.call(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
        broker.clock.advance(seconds=601)
        client.send(ApiKey.METADATA, 12, MetadataRequest(topics=[]))
        assert client.is_closed_by_broker()


def test_a_bad_token_is_refused_after_the_clients_word(broker: Broker) -> None:
    with RawClient(broker.port) as client:
        handshake(client, "OAUTHBEARER")
        assert authenticate(client, _first("no.to.ken")).auth_bytes == b'{"status": "invalid_token"}'
        refused = SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, '{"status": "invalid_token"}')
        assert authenticate(client, b"\x01") == refused
        assert client.is_closed_by_broker()


def test_a_new_key_is_found_while_the_broker_runs(issuer: Issuer, tmp_path: Path) -> None:
    rotating = Issuer(tmp_path / "keys.json")
    rotating.publish("one")
    with Broker(
        listeners="SASL_PLAINTEXT://127.0.0.1:0",
        sasl_enabled_mechanisms="OAUTHBEARER",
        sasl_oauthbearer_jwks_endpoint_url=rotating.keys.as_uri(),
    ) as broker:
        own(broker.bootstrap_servers, rotating.token(), "rotated")
        rotating.publish("two")
        with pytest.raises(AuthorizationFailed):
            own(broker.bootstrap_servers, rotating.token(kid="two"), "rotated")
        broker.clock.advance(seconds=61)
        own(broker.bootstrap_servers, rotating.token(kid="two"), "rotated")


def _first(token: str) -> bytes:
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()
