"""The broker's side of SASL, step by step; and a test for each class of CVE that there has been."""

from __future__ import annotations

import hmac
import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from types import ModuleType

import pytest

from semel.security.sasl import oauthbearer_server, plain_server, scram, scram_server, unknown_users
from semel.security.sasl import server as server_module
from semel.security.sasl.plain_server import PlainServer
from semel.security.sasl.scram_client import ScramExchange
from semel.security.sasl.scram_credentials import ScramCredential
from semel.security.sasl.scram_server import ScramServer
from semel.security.sasl.server import OTHER_IDENTITY, Authenticated, BlockingStep, Challenge, Exchange, Refused, Step
from semel.security.sasl.unknown_users import UnknownUsers
from semel.wire.codes import ScramMechanism

SHA_256 = ScramMechanism.SCRAM_SHA_256
# The example of RFC 7677.
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CHALLENGE = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
VERIFIER = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@cache
def credential(iterations: int = 4096) -> ScramCredential:
    salt = scram.decode_base64("W22ZaJ0SNY7soEsUEjb6gQ==")
    return ScramCredential.of(SHA_256, salt, scram.salted_password(SHA_256, b"pencil", salt, iterations), iterations)


def server(iterations: int = 4096) -> ScramServer:
    kept = credential(iterations)
    return ScramServer(SHA_256, lambda user: kept, NONCE)


def finished(step: Step) -> Step:
    return step.run() if isinstance(step, BlockingStep) else step


def plain(token: bytes, configured: dict[str, str] | None = None) -> Step:
    return finished(PlainServer(configured or {}, lambda user: (SHA_256, credential())).step(token))


def test_scram_agrees_with_the_example_of_rfc_7677() -> None:
    exchange = server()
    assert exchange.step(FIRST) == Challenge(CHALLENGE)
    assert exchange.step(FINAL) == Authenticated("user", VERIFIER)


# The end of an exchange, whatever the mechanism


class Scripted:
    """A mechanism that returns these steps, one after the other."""

    def __init__(self, *steps: Step | Exception) -> None:
        self.user: str | None = None
        self.steps = list(steps)

    def step(self, token: bytes) -> Step:
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step


MECHANISMS = {
    "SCRAM": (server, [FIRST, FINAL]),
    "PLAIN": (lambda: PlainServer({"user": "pencil"}, lambda user: (SHA_256, credential())), [b"\0user\0pencil"]),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_after_the_proof_an_exchange_is_over(name: str) -> None:
    mechanism, messages = MECHANISMS[name]
    for after in (*messages, b""):
        exchange = Exchange(mechanism())
        assert isinstance([finished(exchange.step(message)) for message in messages][-1], Authenticated)
        assert exchange.step(after) == Refused("a message after the last one")
        assert exchange.user == "user"


@pytest.mark.parametrize("name", MECHANISMS)
def test_after_a_refusal_an_exchange_is_over(name: str) -> None:
    mechanism, messages = MECHANISMS[name]
    exchange = Exchange(mechanism())
    assert isinstance(finished(exchange.step(b"nonsense")), Refused)
    assert exchange.step(messages[0]) == Refused("a message after the last one")


def test_a_message_before_the_answer_to_the_last_one_is_refused() -> None:
    exchange = Exchange(
        Scripted(BlockingStep(lambda: Challenge(b"challenge")), Authenticated("user"), Authenticated("user"))
    )
    blocking = exchange.step(b"first")
    assert isinstance(exchange.step(b"second"), Refused)
    assert finished(blocking) == Challenge(b"challenge")
    assert exchange.step(b"second") == Authenticated("user")
    assert isinstance(exchange.step(b"third"), Refused)


def test_an_exception_ends_an_exchange() -> None:
    def fail() -> Refused:
        raise RuntimeError

    exchange = Exchange(Scripted(RuntimeError(), Authenticated("user")))
    with pytest.raises(RuntimeError):
        exchange.step(b"first")
    assert isinstance(exchange.step(b"second"), Refused)
    exchange = Exchange(Scripted(BlockingStep(fail), Authenticated("user")))
    with pytest.raises(RuntimeError):
        finished(exchange.step(b"first"))
    assert isinstance(exchange.step(b"second"), Refused)


# SCRAM and PLAIN, step by step


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (b"p=tls-unique,,n=user,r=nonce", "bind the channel"),
        (b"n,,n=user,r=nonce,tokenauth=true", "delegation token"),
        (b"n,,n=user,r=nonce,a=b,tokenauth=TRUE", "delegation token"),
        (b"n,,m=mandatory,n=user,r=nonce", "not a message"),
        (b"n,,n=us=er,r=nonce", "not a message"),
        (b"n,,n=,r=nonce", "not a message"),
        (b"n,,n=user,r=", "not a message"),
        (b"n,,n=user,r=n\xc3\xa4nce", "not a message"),
        (b"n,,n=user,r=nonce,", "not a message"),
        (b"n,,n=user,r=nonce\n", "not a message"),
        (b"n=user,r=nonce", "not a message"),
        (b"\xff\xfe", "not a message"),
        (b"", "not a message"),
    ],
)
def test_a_first_message_that_is_not_served_is_refused(first: bytes, reason: str) -> None:
    step = server().step(first)
    assert isinstance(step, Refused)
    assert reason in step.reason


def test_a_client_that_could_bind_the_channel_must_have_meant_so_from_the_start() -> None:
    """With "y" somebody may have taken the mechanism that binds out of the list: the flag is part of what is signed."""
    exchange = server()
    assert isinstance(exchange.step(b"y" + FIRST[1:]), Challenge)
    step = exchange.step(FINAL)
    assert isinstance(step, Refused)
    assert "channel binding" in step.reason


def test_extensions_that_are_not_known_are_passed_over() -> None:
    assert isinstance(server().step(FIRST + b",x=1,yy=2"), Challenge)


def test_a_password_that_is_kept_with_too_few_iterations_is_not_asked_for() -> None:
    step = server(iterations=4095).step(FIRST)
    assert isinstance(step, Refused)
    assert "4095" in step.reason


@pytest.mark.parametrize(
    "token",
    [b"", b"user", b"\0user", b"\0user\0pencil\0", b"\0\0pencil", b"\0user\0", b"\0user\0\xff", b"\0user\0wrong"],
)
def test_plain_refuses_what_is_not_three_parts_or_wrong(token: bytes) -> None:
    assert isinstance(plain(token), Refused)


def test_a_user_of_the_start_configuration_has_the_password_of_there_only() -> None:
    assert plain(b"\0user\0other", {"user": "other"}) == Authenticated("user")
    assert isinstance(plain(b"\0user\0pencil", {"user": "other"}), Refused)
    assert plain(b"\0user\0pencil", {"others": "other"}) == Authenticated("user")
    assert isinstance(plain(b"\0user\0p", {"user": ""}), Refused)


def altered(message: bytes, replacements: Callable[[int], Iterable[int]]) -> Iterator[bytes]:
    """The message with one byte replaced, in every way."""
    for position, byte in enumerate(message):
        for other in replacements(byte):
            if other != byte:
                yield message[:position] + bytes([other]) + message[position + 1 :]


def test_no_byte_of_the_last_messages_can_be_another() -> None:
    """All 255 others, of each: these steps are cheap. What comes before them is covered below, and by properties."""
    for message in altered(FINAL, lambda byte: range(256)):
        exchange = server()
        exchange.step(FIRST)
        assert isinstance(exchange.step(message), Refused), message
    client = ScramExchange("SCRAM-SHA-256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
    assert client.client_final(CHALLENGE) == FINAL
    for message in altered(VERIFIER, lambda byte: range(256)):
        with pytest.raises(ValueError):  # noqa: PT011 (which one does not matter)
            client.verify(message)


@pytest.mark.parametrize("number", [0, 1])
def test_no_byte_of_the_first_messages_can_be_another(number: int) -> None:
    for message in altered((FIRST, CHALLENGE)[number], lambda byte: (byte ^ 1, *b"ynp,=")):
        exchange, client = server(), ScramExchange("SCRAM-SHA-256", "user", "pencil", "rOprNGfwEbeRWgbNEkqO")
        step = exchange.step(message if number == 0 else FIRST)
        if isinstance(step, Refused):
            continue
        assert isinstance(step, Challenge)
        try:
            final = client.client_final(message if number == 1 else step.token)
        except ValueError:
            continue
        assert isinstance(exchange.step(final), Refused), message


# The classes of CVE


def test_cve_2017_12610_a_client_has_the_identity_that_it_has_proven_and_no_other() -> None:
    assert plain(b"user\0user\0pencil") == Authenticated("user")
    assert plain(b"admin\0user\0pencil") == OTHER_IDENTITY
    assert plain(b"User\0user\0pencil") == OTHER_IDENTITY
    assert server().step(b"n,a=admin,n=user,r=nonce") == OTHER_IDENTITY
    assert isinstance(server().step(b"n,a=user,n=user,r=nonce"), Challenge)


@pytest.mark.parametrize(
    "nonce",
    [
        b"rOprNGfwEbeRWgbNEkqO",
        b"rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k",
        b"rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k00",
        b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        b"another",
    ],
)
def test_cve_2024_56128_the_nonce_of_the_last_message_is_verified(nonce: bytes) -> None:
    """With a proof that is right for the nonce that was sent: so it is the nonce that refuses it."""
    exchange, kept = server(), credential()
    exchange.step(FIRST)
    without_proof = b"c=biws,r=" + nonce
    key = scram.client_key(SHA_256, scram.salted_password(SHA_256, b"pencil", kept.salt, kept.iterations))
    messages = b",".join((FIRST[3:], CHALLENGE, without_proof))
    proof = scram.exclusive_or(key, scram.signature(SHA_256, kept.stored_key, messages))
    step = exchange.step(without_proof + b",p=" + scram.encode_base64(proof).encode())
    assert isinstance(step, Refused)
    assert "nonce" in step.reason


def test_cve_2024_56128_an_exchange_that_was_listened_to_cannot_be_repeated() -> None:
    again = ScramServer(SHA_256, lambda user: credential(), "another nonce".replace(" ", "-"))
    again.step(FIRST)
    assert isinstance(again.step(FINAL), Refused)


@pytest.mark.parametrize("module", [plain_server, scram_server])
def test_cve_2021_38153_secrets_are_compared_in_constant_time(module: ModuleType) -> None:
    """No comparison of secrets but by ``compare_digest``: the names of secrets stand beside no ``==``."""
    source = inspect.getsource(module)
    assert "compare_digest" in source
    for line in source.splitlines():
        if "==" in line or "!=" in line:
            assert not any(secret in line for secret in ("stored_key", "password", "proof", "secret")), line


def test_an_unknown_user_looks_like_most_users_and_the_same_on_every_broker() -> None:
    kept = {str(number): ScramCredential(b"x" * 20, b"", b"", 5000) for number in range(3)}
    kept["other"] = ScramCredential(b"x" * 8, b"", b"", 4096)
    unknown = UnknownUsers(SHA_256, b"secret", kept).credential("nobody")
    assert (len(unknown.salt), unknown.iterations) == (20, 5000)
    assert len(unknown.stored_key) == 32
    assert UnknownUsers(SHA_256, b"secret", dict(reversed(kept.items()))).credential("nobody") == unknown
    assert UnknownUsers(SHA_256, b"another", kept).credential("nobody").salt != unknown.salt
    assert UnknownUsers(SHA_256, b"secret", kept).credential("nobody else").salt != unknown.salt
    assert not hmac.compare_digest(unknown.stored_key, unknown.server_key)
    nobody_yet = UnknownUsers(ScramMechanism.SCRAM_SHA_512, b"secret", {}).credential("nobody")
    assert (len(nobody_yet.salt), nobody_yet.iterations, len(nobody_yet.stored_key)) == (32, 8192, 64)


def test_an_unknown_user_and_a_wrong_password_are_told_the_same() -> None:
    assert plain(b"\0user\0wrong") == plain(b"\0nobody\0wrong")
    ends = []
    for name in (b"user", b"nobody"):
        exchange = ScramServer(SHA_256, UnknownUsers(SHA_256, b"secret", {}).credential, NONCE)
        exchange.step(FIRST.replace(b"user", name))
        ends.append(exchange.step(FINAL))
    assert ends[0] == ends[1]


def test_nothing_secret_shows_in_what_is_printed() -> None:
    steps = [plain(b"\0user\0hunter2"), server().step(FIRST), BlockingStep(lambda: Refused("hunter2"))]
    server_in_use = server()
    server_in_use.step(FIRST)
    shown = repr([*steps, server_in_use, PlainServer({"user": "hunter2"}, lambda user: (SHA_256, credential()))])
    assert "hunter2" not in shown
    assert "W22ZaJ0SNY7soEsUEjb6gQ" not in shown


@pytest.mark.parametrize("module", [server_module, scram_server, plain_server, oauthbearer_server, unknown_users])
def test_no_mechanism_logs(module: ModuleType) -> None:
    """What a client is refused for is returned; the broker says it, without the message."""
    assert "import logging" not in inspect.getsource(module)
