"""OAUTHBEARER from end to end: an authorization server with TLS, a broker that checks its tokens, and our client."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from semel import Consumer, Producer, blocking
from semel.errors import AuthorizationFailed
from semel.testing import Broker
from tests.clients.authorization_server import AuthorizationServer, authorization_server
from tools.patience import PATIENCE_MS, PATIENCE_S

pytestmark = pytest.mark.needs("pyjwt")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[AuthorizationServer]:
    with authorization_server(tmp_path) as running:
        yield running


@pytest.fixture
def broker(server: AuthorizationServer, tmp_path: Path) -> Iterator[Broker]:
    (tmp_path / "jwks.json").write_text(server.jwks())
    with Broker(
        listeners="SASL_PLAINTEXT://127.0.0.1:0",
        sasl_enabled_mechanisms="OAUTHBEARER",
        sasl_oauthbearer_jwks_endpoint_url=(tmp_path / "jwks.json").as_uri(),
        connections_max_reauth_ms=1_500,
    ) as running:
        yield running


def of(broker: Broker, **settings: Any) -> dict[str, Any]:
    return {"bootstrap_servers": broker.bootstrap_servers, "security_protocol": "SASL_PLAINTEXT", **settings}


def test_clients_share_a_token_of_the_endpoint(server: AuthorizationServer, broker: Broker) -> None:
    settings = of(broker, **server.client_settings())
    with blocking.Producer(**settings) as producer:
        producer.send("orders", b"value").result()
    with blocking.Consumer(**settings, auto_offset_reset="earliest") as consumer:
        consumer.assign([("orders", 0)])
        (record,) = consumer.poll(PATIENCE_MS)
    assert record.value == b"value"
    assert server.issued == 1


def test_sessions_are_renewed_under_load_with_fresh_tokens(server: AuthorizationServer, broker: Broker) -> None:
    server.lifetime_s = 1  # So none is used twice for sessions that last longer than that.
    sent: list[Any] = []
    with blocking.Producer(**of(broker, **server.client_settings())) as producer:
        while server.issued < 4:
            sent += [producer.send("orders", str(len(sent) + at).encode()) for at in range(20)]
            sent[-1].result()
        for future in sent:
            future.result()
    assert [record.value for record in broker.committed("orders", 0)] == [str(at).encode() for at in range(len(sent))]


def test_a_wrong_secret_is_refused_once_and_shown_nowhere(
    server: AuthorizationServer, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with (
        blocking.Producer(**of(broker, **server.client_settings(secret="hunter2"))) as producer,
        pytest.raises(AuthorizationFailed, match="status 401, 'invalid_client: no such client'") as raised,
    ):
        producer.send("orders", b"value").result()
    assert len(server.asked) == 1
    assert "hunter2" not in str(raised.value) + repr(raised.value.__context__) + caplog.text


def test_a_secret_is_not_taken_elsewhere(server: AuthorizationServer, broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with authorization_server(tmp_path / "other") as elsewhere:
        server.redirected_to = elsewhere.url
        with (
            blocking.Producer(**of(broker, **server.client_settings())) as producer,
            pytest.raises(AuthorizationFailed, match="status 307"),
        ):
            producer.send("orders", b"value").result()
        assert elsewhere.asked == []


def test_an_endpoint_whose_certificate_is_not_trusted_gets_no_secret(
    server: AuthorizationServer, broker: Broker
) -> None:
    settings = {**server.client_settings(), "ssl_truststore_certificates": None}
    with (
        blocking.Producer(**of(broker, **settings)) as producer,
        pytest.raises(AuthorizationFailed, match="certificate is not trusted"),
    ):
        producer.send("orders", b"value").result()
    assert server.asked == []


def test_an_async_provider_is_awaited_in_the_application_s_loop(server: AuthorizationServer, broker: Broker) -> None:
    """Also by a consumer with a group, which has a loop and a thread of its own: what it uses lives in this one."""
    loops: list[asyncio.AbstractEventLoop] = []

    async def provider() -> str:
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return server.token()

    async def application() -> None:
        settings = of(broker, sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_token_provider=provider)
        async with Producer(**settings) as producer:
            await producer.send("orders", b"value")
        before = len(loops)
        async with Consumer(**settings, group_id="billing", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["orders"])
            async for record in consumer:
                assert record.value == b"value"
                break
        assert len(loops) > before > 0
        assert set(loops) == {asyncio.get_running_loop()}

    asyncio.run(application())


def test_a_provider_that_blocks_does_not_hold_up_the_loop(server: AuthorizationServer, broker: Broker) -> None:
    loop_went_on = threading.Event()

    def provider() -> str:
        assert loop_went_on.wait(PATIENCE_S)
        return server.token()

    async def application() -> None:
        settings = of(broker, sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_token_provider=provider)
        async with Producer(**settings) as producer:
            future = producer.send("orders", b"value")
            asyncio.get_running_loop().call_later(0.01, loop_went_on.set)
            await future

    asyncio.run(application())
