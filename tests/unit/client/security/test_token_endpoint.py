"""Tokens from an authorization server: what is asked, how long a token is used, and what a refusal says."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Mapping
from typing import Any

import pytest

from semel.client.security.config import SecurityConfig
from semel.client.security.token_endpoint import Answer, TokenEndpoint
from semel.errors import AuthorizationFailed
from semel.security.sasl.client import SaslError
from semel.security.security_protocol import SecurityProtocol

SECRET = "s3cret/&+ of the client"
URL = "https://idp.example/token"
NOW_S = 1_800_000_000.0


class Server:
    """An authorization server, and the time."""

    def __init__(self, *answers: Answer | Exception, **settings: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[Mapping[str, str], bytes]] = []
        self.now_s = 0.0
        self.slept: list[float] = []
        security = SecurityConfig(
            security_protocol=SecurityProtocol.SASL_SSL,
            sasl_mechanism="OAUTHBEARER",
            sasl_oauthbearer_token_endpoint_url=URL,
            sasl_oauthbearer_client_credentials_client_id="billing app",
            sasl_oauthbearer_client_credentials_client_secret=SECRET,
            **settings,
        )
        self.endpoint = TokenEndpoint(
            security, post=self.post, now_s=lambda: self.now_s, wall_s=lambda: NOW_S + self.now_s, sleep=self.sleep
        )

    def post(self, headers: Mapping[str, str], body: bytes) -> Answer:
        self.asked.append((headers, body))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now_s += seconds


def issued(token: object = "abc.def-ghi", status: int = 200, **fields: Any) -> Answer:
    return Answer(status, json.dumps({"access_token": token, **fields}).encode())


def test_the_client_proves_itself_in_a_header_and_asks_for_its_scope() -> None:
    server = Server(issued(expires_in=60), sasl_oauthbearer_scope="kafka produce")
    assert server.endpoint() == "abc.def-ghi"
    ((headers, body),) = server.asked
    kind, _, basic = headers["Authorization"].partition(" ")
    assert (kind, base64.b64decode(basic).decode()) == ("Basic", f"billing app:{SECRET}")
    assert body == b"grant_type=client_credentials&scope=kafka+produce"
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"


def test_the_header_is_url_encoded_where_the_server_wants_it_so() -> None:
    server = Server(issued(expires_in=60), sasl_oauthbearer_header_urlencode=True)
    server.endpoint()
    basic = server.asked[0][0]["Authorization"].removeprefix("Basic ")
    assert base64.b64decode(basic) == b"billing+app:s3cret%2F%26%2B+of+the+client"


@pytest.mark.parametrize(
    "answer",
    [
        issued(expires_in=100),
        issued(expires_in="100"),
        issued("e30." + base64.urlsafe_b64encode(b'{"exp":%d}' % (NOW_S + 100)).decode().rstrip("=") + ".s"),
    ],
    ids=["a number", "a text", "in the token"],
)
def test_a_token_is_used_until_four_fifths_of_its_time(answer: Answer) -> None:
    server = Server(answer)
    for server.now_s in (0.0, 50.0, 79.9):
        server.endpoint()
    assert len(server.asked) == 1
    server.now_s = 80.0
    server.endpoint()
    assert len(server.asked) == 2


@pytest.mark.parametrize("fields", [{}, {"expires_in": None}, {"expires_in": -5}, {"expires_in": "soon"}])
def test_a_token_that_does_not_say_how_long_it_is_valid_is_used_once(fields: dict[str, Any]) -> None:
    server = Server(issued(**fields))
    server.endpoint()
    server.endpoint()
    assert len(server.asked) == 2


@pytest.mark.parametrize("lifetime", ["1e999", "NaN", "1" + "0" * 400])
def test_no_token_is_used_for_ever(lifetime: str) -> None:
    server = Server(Answer(200, b'{"access_token": "abc", "expires_in": %s}' % lifetime.encode()))
    server.endpoint()
    server.now_s = 24 * 3600.0
    server.endpoint()
    assert len(server.asked) == 2


def test_a_server_that_does_not_answer_is_asked_again_with_growing_pauses_for_a_while() -> None:
    server = Server(OSError("away"), Answer(503, b""), Answer(429, b""), issued(expires_in=60))
    server.endpoint()
    assert server.slept == [0.1, 0.2, 0.4]
    server = Server(OSError("away"), sasl_login_retry_backoff_ms=1_000, sasl_login_retry_backoff_max_ms=5_000)
    with pytest.raises(SaslError, match=f"no token from sasl.oauthbearer.token.endpoint.url={URL}: .* away"):
        server.endpoint()
    assert server.slept == [1.0, 2.0, 2.0]


def test_while_the_server_is_away_the_old_token_is_used_until_its_end() -> None:
    server = Server(issued("old", expires_in=1_000), OSError("away"))
    server.endpoint()
    server.now_s = 900.0
    assert server.endpoint() == "old"
    server.now_s = 1_000.0
    with pytest.raises(SaslError):
        server.endpoint()


@pytest.mark.parametrize("status", [401, 404])
def test_while_the_server_refuses_a_new_token_the_old_one_is_used_until_its_end(status: int) -> None:
    """A refusal closes the client for good. A server that is being deployed must not do that to a client that works."""
    server = Server(issued("old", expires_in=1_000), Answer(status, b"{}"), issued("new", expires_in=1_000))
    server.endpoint()
    server.now_s = 900.0
    assert [server.endpoint(), server.endpoint()] == ["old", "new"]
    server.answers = [Answer(status, b"{}")]
    server.now_s = 1_900.0
    with pytest.raises(AuthorizationFailed):
        server.endpoint()


@pytest.mark.parametrize("status", [302, 400, 401, 403, 404, 501])
def test_what_the_server_refuses_is_final_and_does_not_show_the_secret(status: int) -> None:
    said = json.dumps({"error": "invalid_client", "error_description": f"{SECRET} is wrong"}).encode()
    server = Server(Answer(status, said))
    with pytest.raises(AuthorizationFailed, match=f"status {status}, 'invalid_client: ") as raised:
        server.endpoint()
    assert len(server.asked) == 1
    assert SECRET not in str(raised.value)
    assert URL in str(raised.value)


def test_a_certificate_that_is_not_trusted_is_final() -> None:
    error = ssl.SSLCertVerificationError("no")
    error.verify_message = "self-signed certificate"
    with pytest.raises(AuthorizationFailed, match=r"self-signed certificate. Look at ssl.truststore"):
        Server(error).endpoint()


@pytest.mark.parametrize(
    "answer",
    [
        Answer(200, b"<html>Log in</html>"),
        Answer(200, b"[]"),
        Answer(200, b"[" * 100_000),
        issued(None),
        issued(7),
        issued(""),
        issued("a\x01auth=Bearer b"),
        issued("two words"),
        issued("line\n"),
    ],
)
def test_what_is_no_token_is_never_sent_and_never_shown(answer: Answer) -> None:
    server = Server(answer, sasl_login_retry_backoff_max_ms=0)
    with pytest.raises(SaslError, match="no access_token that can be used") as raised:
        server.endpoint()
    assert "auth=Bearer" not in str(raised.value)
