"""OAUTHBEARER: which tokens are believed, and when the keys are fetched."""

from __future__ import annotations

import base64
import importlib
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from semel.security.sasl import access_tokens
from semel.security.sasl.access_tokens import (
    FETCH_INTERVAL_MS,
    Accepted,
    MissingExtra,
    Rejected,
    TokenRules,
    TokenVerifier,
)
from semel.security.sasl.client import OAuthBearer
from semel.security.sasl.oauthbearer_server import OAuthBearerServer
from semel.security.sasl.server import OTHER_IDENTITY, Authenticated, BlockingStep, Challenge, Exchange, Refused, Step

pytestmark = pytest.mark.needs("pyjwt")

NOW_S = 1_800_000_000
RULES = TokenRules(issuer="https://issuer", audiences=("kafka",))
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC = ec.generate_private_key(ec.SECP256R1())


class Clock:
    def __init__(self) -> None:
        self.passed_ms = 0.0

    def now_ms(self) -> int:
        return int(NOW_S * 1000 + self.passed_ms)

    def monotonic_ms(self) -> float:
        return self.passed_ms


class Issuer:
    """An authorization server, with the document of its keys."""

    def __init__(self, rules: TokenRules = RULES) -> None:
        self.jwt = importlib.import_module("jwt")
        self.keys: dict[str, Any] = {"one": RSA}
        self.extra: list[dict[str, Any]] = []
        self.fetched = 0
        self.is_down = False
        self.clock = Clock()
        self.verifier = TokenVerifier(rules, fetch=self.document, clock=self.clock)

    def document(self) -> bytes:
        self.fetched += 1
        if self.is_down:
            raise OSError("it does not answer")
        return json.dumps({"keys": [self.public(name) for name in self.keys] + self.extra}).encode()

    def public(self, name: str) -> dict[str, Any]:
        key = self.keys[name].public_key()
        algorithm = self.jwt.algorithms.ECAlgorithm if isinstance(key, ec.EllipticCurvePublicKey) else None
        algorithm = algorithm or self.jwt.algorithms.RSAAlgorithm
        return {**json.loads(algorithm.to_jwk(key)), "kid": name, "use": "sig"}

    def token(self, *, key: Any = RSA, algorithm: str | None = "RS256", kid: str | None = "one", **claims: Any) -> str:
        said = {"sub": "carol", "iss": "https://issuer", "aud": "kafka", "iat": NOW_S, "exp": NOW_S + 300, **claims}
        said = {name: value for name, value in said.items() if value is not None}
        token: str = self.jwt.encode(said, key, algorithm=algorithm, headers={} if kid is None else {"kid": kid})
        return token

    def judged(self, token: str) -> Accepted | Rejected:
        if self.verifier.needs_keys(token):
            self.verifier.fetch_keys()
        return self.verifier.verify(token)

    def refuses(self, token: str) -> str:
        verdict = self.judged(token)
        assert isinstance(verdict, Rejected)
        return verdict.reason


def test_a_good_token_says_who_it_is_and_until_when() -> None:
    issuer = Issuer()
    assert issuer.judged(issuer.token(scope="read write")) == Accepted("carol", (NOW_S + 300) * 1000, ("read", "write"))
    assert isinstance(issuer.judged(issuer.token(algorithm="PS256")), Accepted)
    issuer.keys["two"] = EC
    issuer.clock.passed_ms += access_tokens.FETCH_INTERVAL_MS
    assert isinstance(issuer.judged(issuer.token(key=EC, algorithm="ES256", kid="two")), Accepted)


def test_the_claims_that_are_looked_at_can_be_named() -> None:
    issuer = Issuer(TokenRules(user_claim="client", scope_claim="rights"))
    assert issuer.judged(issuer.token(client="dave", rights=["a"])) == Accepted("dave", (NOW_S + 300) * 1000, ("a",))
    assert "no client" in issuer.refuses(issuer.token())


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"iss": "https://other"}, "InvalidIssuer"),
        ({"iss": None}, "MissingRequiredClaim"),
        ({"aud": "others"}, "InvalidAudience"),
        ({"aud": None}, "MissingRequiredClaim"),
        ({"exp": NOW_S - 31}, "expired"),
        ({"exp": None}, "MissingRequiredClaim"),
        ({"exp": float("nan")}, "no time"),
        ({"exp": float("inf")}, "no time"),
        ({"exp": "never"}, "no time"),
        ({"exp": True}, "no time"),
        ({"iat": None}, "MissingRequiredClaim"),
        ({"iat": NOW_S + 31}, "future"),
        ({"nbf": NOW_S + 31}, "future"),
        ({"sub": None}, "no sub"),
        ({"sub": ""}, "no sub"),
    ],
)
def test_a_token_that_says_something_else_is_not_believed(claims: dict[str, Any], reason: str) -> None:
    issuer = Issuer()
    assert reason in issuer.refuses(issuer.token(**claims))


def test_clocks_may_differ_a_little() -> None:
    issuer = Issuer()
    assert isinstance(issuer.judged(issuer.token(exp=NOW_S - 29, nbf=NOW_S + 29)), Accepted)


def test_no_algorithm_but_signatures_with_a_public_key() -> None:
    issuer = Issuer()
    issuer.extra = [{"kty": "oct", "k": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0", "kid": "shared", "alg": "HS256"}]
    secret = b"secretsecretsecretsecretsecret"
    assert "InvalidAlgorithm" in issuer.refuses(issuer.token(key=None, algorithm="none"))
    # A keyed hash, with the public key as its secret: whoever has read the document of keys could sign.
    assert "InvalidAlgorithm" in issuer.refuses(issuer.token(key=secret * 2, algorithm="HS256"))
    assert "not known" in issuer.refuses(issuer.token(key=secret * 2, algorithm="HS256", kid="shared"))
    assert "Invalid" in issuer.refuses(issuer.token(key=EC, algorithm="ES256"))
    assert "InvalidSignature" in issuer.refuses(issuer.token()[:-8] + "AAAAAAAA")


def test_a_key_is_used_for_what_it_is_declared_for() -> None:
    issuer = Issuer()
    del issuer.keys["one"]
    public = {**Issuer().public("one"), "alg": "RS512"}
    issuer.extra = [public, {**public, "kid": "encryption", "use": "enc", "alg": "RS256"}]
    assert isinstance(issuer.judged(issuer.token(algorithm="RS512")), Accepted)
    assert "InvalidAlgorithm" in issuer.refuses(issuer.token())
    assert "not known" in issuer.refuses(issuer.token(kid="encryption"))


def test_a_key_that_a_token_brings_with_it_means_nothing() -> None:
    issuer = Issuer()
    own = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    headers = {"kid": "one", "jwk": json.loads(issuer.jwt.algorithms.RSAAlgorithm.to_jwk(own.public_key()))}
    claims = {"sub": "admin", "iss": "https://issuer", "aud": "kafka", "iat": NOW_S, "exp": NOW_S + 300}
    forged = issuer.jwt.encode(claims, own, algorithm="RS256", headers={**headers, "jku": "https://evil/keys"})
    assert "InvalidSignature" in issuer.refuses(forged)


def test_an_unknown_key_is_fetched_at_most_once_a_minute() -> None:
    issuer = Issuer()
    issuer.judged(issuer.token())
    assert issuer.fetched == 1
    issuer.keys["two"] = RSA
    for _ in range(5):
        assert not issuer.verifier.needs_keys(issuer.token(kid="two"))
        assert "not known" in issuer.refuses(issuer.token(kid="two"))
    assert issuer.fetched == 1
    issuer.clock.passed_ms += access_tokens.FETCH_INTERVAL_MS
    assert isinstance(issuer.judged(issuer.token(kid="two")), Accepted)
    for number in range(5):
        issuer.refuses(issuer.token(kid=f"invented-{number}"))
    assert issuer.fetched == 2


def test_what_two_connections_ask_for_at_once_is_fetched_once() -> None:
    issuer = Issuer()
    token = issuer.token()
    assert issuer.verifier.needs_keys(token)
    issuer.verifier.fetch_keys()
    issuer.verifier.fetch_keys()
    assert issuer.fetched == 1


def test_a_key_that_was_withdrawn_is_forgotten_in_time() -> None:
    issuer = Issuer()
    assert isinstance(issuer.judged(issuer.token()), Accepted)
    del issuer.keys["one"]
    issuer.clock.passed_ms += RULES.refresh_ms
    assert "not known" in issuer.refuses(issuer.token(exp=NOW_S + 10_000))


def test_keys_that_cannot_be_fetched_stay_as_they_are(caplog: pytest.LogCaptureFixture) -> None:
    issuer = Issuer()
    issuer.judged(issuer.token())
    issuer.is_down = True
    issuer.clock.passed_ms += RULES.refresh_ms
    assert isinstance(issuer.judged(issuer.token(exp=NOW_S + 10_000)), Accepted)
    assert "it does not answer" in caplog.text


def test_a_token_without_the_name_of_its_key_is_of_the_only_one() -> None:
    issuer = Issuer()
    assert isinstance(issuer.judged(issuer.token(kid=None)), Accepted)
    issuer.keys["two"] = EC
    issuer.clock.passed_ms += RULES.refresh_ms
    assert "not known" in issuer.refuses(issuer.token(kid=None, exp=NOW_S + 10_000))


DEEP, LONG = b"[" * 20_000, b"9" * 20_000
HEADERS = [
    DEEP,
    b'{"alg":"RS256","kid":' + DEEP,
    b'{"alg":"RS256","kid":' + LONG + b"}",
    b'{"alg":"RS256","kid":"one","crit":["x"]}',
    b'{"alg":["RS256"],"kid":"one"}',
    b'{"alg":null,"kid":{}}',
    b'{"alg":"RS256","kid":"one","b64":false}',
    b"[]",
    b"",
]
CLAIMS = [DEEP, b"[]", b'"x"', b'{"exp":' + LONG + b',"iat":1}', b'{"sub":[],"exp":{},"iat":[]}', b""]


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: header[:24].decode())
def test_a_header_that_nobody_would_sign_is_rejected(header: bytes) -> None:
    issuer = Issuer()
    issuer.judged(issuer.token())
    issuer.clock.passed_ms += access_tokens.FETCH_INTERVAL_MS
    parts = (base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in (header, b"{}", b"signature"))
    assert issuer.refuses(".".join(parts))


@pytest.mark.parametrize("claims", CLAIMS, ids=lambda claims: claims[:24].decode())
def test_claims_that_make_no_sense_are_rejected_although_they_are_signed(claims: bytes) -> None:
    issuer = Issuer(TokenRules())
    assert issuer.refuses(issuer.jwt.api_jws.encode(claims, RSA, algorithm="RS256", headers={"kid": "one"}))


# The exchange


def finished(step: Step) -> Step:
    return step.run() if isinstance(step, BlockingStep) else step


def test_the_exchange_with_our_client() -> None:
    issuer = Issuer()
    server = Exchange(OAuthBearerServer(issuer.verifier))
    first = server.step(OAuthBearer(issuer.token()).first())
    assert isinstance(first, BlockingStep), "the keys are not there yet, and they are not fetched on the loop"
    assert first.run() == Authenticated("carol", expires_at_ms=(NOW_S + 300) * 1000)
    assert isinstance(server.step(OAuthBearer(issuer.token()).first()), Refused)
    now = OAuthBearerServer(issuer.verifier).step(OAuthBearer(issuer.token()).first())
    assert isinstance(now, Authenticated)


def test_a_bad_token_is_told_in_json_and_refused_after_the_clients_word() -> None:
    issuer = Issuer()
    server, client = Exchange(OAuthBearerServer(issuer.verifier)), OAuthBearer(issuer.token(exp=NOW_S - 100))
    told = finished(server.step(client.first()))
    assert told == Challenge(b'{"status": "invalid_token"}')
    assert isinstance(told, Challenge)
    acknowledged = client.answer(told.token)
    assert acknowledged == b"\x01"
    refusal = server.step(acknowledged)
    assert refusal == Refused("the token has expired", '{"status": "invalid_token"}')
    # Nor does a good one help after that.
    assert isinstance(server.step(OAuthBearer(issuer.token()).first()), Refused)


def test_cve_2017_12610_a_token_gives_no_other_identity_than_its_own() -> None:
    issuer = Issuer()
    issuer.judged(issuer.token())
    for identity, expected in (("admin", OTHER_IDENTITY), ("carol", Authenticated)):
        message = f"n,a={identity},\x01auth=Bearer {issuer.token()}\x01\x01".encode()
        step = OAuthBearerServer(issuer.verifier).step(message)
        assert step == expected if isinstance(expected, Refused) else isinstance(step, Authenticated)


@pytest.mark.parametrize(
    "message",
    [b"", b"\x01", b"n,,\x01auth=Basic abc\x01\x01", b"n,,auth=Bearer abc", b"y,,\x01auth=Bearer a\x01\x01", b"\xff"],
)
def test_what_is_no_message_is_refused_at_once(message: bytes) -> None:
    assert isinstance(OAuthBearerServer(Issuer().verifier).step(message), Refused)


def test_a_token_of_json_within_json_within_json_is_refused() -> None:
    issuer = Issuer()
    deep = base64.urlsafe_b64encode(b"[" * 40_000).decode()
    for token in (f"{deep}.e30.AAAA", f"{issuer.token().split('.')[0]}.{deep}.AAAA"):
        assert issuer.refuses(token).startswith("the token is not valid")
        issuer.clock.passed_ms += FETCH_INTERVAL_MS
        assert not issuer.verifier.needs_keys(f"{deep}.e30.AAAA")


def test_extensions_of_kafkas_clients_are_passed_over() -> None:
    issuer = Issuer()
    issuer.judged(issuer.token())
    message = f"n,,\x01auth=Bearer {issuer.token()}\x01logicalCluster=lkc-1\x01host=a\x01\x01".encode()
    assert isinstance(OAuthBearerServer(issuer.verifier).step(message), Authenticated)


def test_without_pyjwt_the_extra_is_named() -> None:
    assert "semel[oauth]" in str(MissingExtra())
