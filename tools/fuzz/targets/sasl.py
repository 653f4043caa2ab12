"""Targets for SASL on both sides: a client's messages to a broker before it is authenticated, and a broker's answers.

A broker's mechanism has a stricter contract than a decoder: it must never raise. An input is the messages of one
exchange, each on a line of its own (no message of SCRAM or PLAIN has a newline, and OAUTHBEARER has one message).
"""

from __future__ import annotations

import base64
import importlib.util
import json
from random import Random
from typing import Final

from semel.errors import DecodeError
from semel.security.sasl import scram
from semel.security.sasl.access_tokens import TokenRules, TokenVerifier
from semel.security.sasl.client import SaslError, Scram
from semel.security.sasl.jaas import jaas_users
from semel.security.sasl.oauthbearer_server import OAuthBearerServer
from semel.security.sasl.plain_server import PlainServer
from semel.security.sasl.scram_credentials import ScramCredential
from semel.security.sasl.scram_server import ScramServer
from semel.security.sasl.server import Authenticated, BlockingStep, Challenge, Refused, ServerMechanism
from semel.security.sasl.unknown_users import UnknownUsers
from semel.wire.codes import ScramMechanism
from tools.fuzz.target import Target

_SHA: Final = ScramMechanism.SCRAM_SHA_256
_USER: Final = "alice"
_PASSWORD: Final = "secret"
_CLIENT_NONCE: Final = "clients"
_SERVER_NONCE: Final = "servers"
_SALTED: Final = scram.salted_password(_SHA, _PASSWORD.encode(), b"salt", scram.ITERATIONS_MIN)
_CREDENTIAL: Final = ScramCredential.of(_SHA, b"salt", _SALTED, scram.ITERATIONS_MIN)
_UNKNOWN: Final = UnknownUsers(_SHA, b"the cluster's", {_USER: _CREDENTIAL})
# With one iteration: PLAIN salts the password at each login, and that cost is not part of the decoding.
_PLAIN: Final = ScramCredential.of(_SHA, b"salt", scram.salted_password(_SHA, _PASSWORD.encode(), b"salt", 1), 1)
_UNKNOWN_PLAIN: Final = UnknownUsers(_SHA, b"the cluster's", {_USER: _PLAIN})
_ROUNDS: Final = 24


def targets() -> list[Target]:
    found = [
        Target("PLAIN", _plain, _check_plain, rounds=_ROUNDS),
        Target("SCRAM, the broker's side", _scram, _check_scram, rounds=2 * _ROUNDS),
        Target("SCRAM, the client's side", _scram_answers, _check_scram_answers, (SaslError,), rounds=_ROUNDS // 4),
        Target("JAAS", _jaas, _check_jaas, rounds=_ROUNDS // 2),
    ]
    if importlib.util.find_spec("jwt") is not None:
        found.append(Target("OAUTHBEARER", _oauth, _check_oauth, rounds=_ROUNDS, is_served=False))
    return found


def _credential(user: str) -> ScramCredential:
    return _CREDENTIAL if user == _USER else _UNKNOWN.credential(user)


def _exchanged(server: ServerMechanism, messages: list[bytes]) -> None:
    """Run the exchange and check its result. Raises DecodeError unless it ends with an authenticated user.

    Only the user whose password was used may be authenticated, and only once. A refused exchange must stay refused.
    """
    end: Authenticated | Refused | None = None
    for message in messages:
        step = server.step(message)
        if isinstance(step, BlockingStep):
            step = step.run()
        if isinstance(end, Authenticated):
            assert not isinstance(step, Authenticated), "believed twice"
        if isinstance(step, Authenticated):
            assert not isinstance(end, Refused), "believed after it was refused"
            assert step.user == _USER, f"believed as {step.user}"
        if not isinstance(step, Challenge):
            end = step
    if not isinstance(end, Authenticated):
        raise DecodeError("refused, or not to its end")


def _plain(random: Random) -> bytes:
    identity = random.choice(("", _USER))
    return f"{identity}\0{_USER}\0{_PASSWORD}".encode()


def _check_plain(data: bytes) -> None:
    server = PlainServer({}, lambda user: (_SHA, _PLAIN if user == _USER else _UNKNOWN_PLAIN.credential(user)))
    _exchanged(server, [data])


def _messages() -> tuple[list[bytes], list[bytes]]:
    """Return the messages of the client and of the broker in a complete exchange, from which all inputs are made."""
    client = Scram("SCRAM-SHA-256", _USER, _PASSWORD, _CLIENT_NONCE)
    server = ScramServer(_SHA, _credential, _SERVER_NONCE)
    said, answered = [client.first()], []
    for _ in range(2):
        step = server.step(said[-1])
        assert isinstance(step, Challenge | Authenticated)
        answered.append(step.token)
        answer = client.answer(step.token)
        if answer is not None:
            said.append(answer)
    return said, answered


_SAID, _ANSWERED = _messages()


def _scram(random: Random) -> bytes:
    return b"\n".join(_SAID)


def _check_scram(data: bytes) -> None:
    server = ScramServer(_SHA, _credential, _SERVER_NONCE)
    _exchanged(server, data.split(b"\n")[:4])


def _scram_answers(random: Random) -> bytes:
    return b"\n".join(_ANSWERED)


def _check_scram_answers(data: bytes) -> None:
    first, _, last = data.partition(b"\n")
    client = Scram("SCRAM-SHA-256", _USER, _PASSWORD, _CLIENT_NONCE)
    client.first()
    client.answer(first)
    assert client.answer(last) is None
    verifier, _, _ = last.partition(b",")  # RFC 5802 allows extensions after the verifier.
    assert [first, verifier] == _ANSWERED, "a broker that does not know the password is believed"


class _Clock:
    def now_ms(self) -> int:
        return 0

    def monotonic_ms(self) -> float:
        return 0.0


def _oauth(random: Random) -> bytes:
    """Return a well-formed token without a valid signature: its header and claims are decoded before it is checked."""
    header = {
        "alg": random.choice(("RS256", "none", "HS256")),
        "kid": random.choice(("one", "two", None)),
        "typ": "JWT",
    }
    claims = {"sub": "mallory", "exp": 2e9, "iat": 1}
    token = ".".join(_base64(json.dumps(part).encode()) for part in (header, claims)) + "." + _base64(bytes(8))
    if random.random() < 0.1:
        token = _base64(b"[" * random.choice((10, 3000))) + "." + token.partition(".")[2]
    identity = random.choice(("", "a=mallory"))
    return f"n,{identity},\x01auth=Bearer {token}\x01\x01".encode()


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


_KEYS: Final = json.dumps({"keys": [{"kty": "oct", "kid": "one", "k": "AAAA"}]}).encode()


def _check_oauth(data: bytes) -> None:
    server = OAuthBearerServer(TokenVerifier(TokenRules(), fetch=lambda: _KEYS, clock=_Clock()))
    _exchanged(server, [data, b"\x01"])


def _jaas(random: Random) -> bytes:
    return b'org.apache.kafka.PlainLoginModule required user_alice="se\\"cret" user_bob=x;'


def _check_jaas(data: bytes) -> None:
    jaas_users(data.decode(errors="replace"))
