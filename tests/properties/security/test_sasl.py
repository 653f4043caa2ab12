"""SASL, our client against our server: every user and password, every single byte that is not as it was sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from semel.security.sasl import scram
from semel.security.sasl.client import Plain, SaslError, Scram
from semel.security.sasl.plain_server import PlainServer
from semel.security.sasl.scram_credentials import ScramCredential
from semel.security.sasl.scram_server import ScramServer
from semel.security.sasl.server import Authenticated, BlockingStep, Challenge, Refused, ServerMechanism, Step
from semel.security.sasl.unknown_users import UnknownUsers
from semel.wire.codes import ScramMechanism

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12)
NAMES = st.sampled_from(sorted(scram.MECHANISMS))
SALTS = st.binary(min_size=1, max_size=40)
NONCES = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters=","), min_size=1)
SECRET = b"the cluster's"


def credential(
    mechanism: ScramMechanism, password: str, salt: bytes = b"salt", iterations: int = 4096
) -> ScramCredential:
    salted = scram.salted_password(mechanism, password.encode(), salt, iterations)
    return ScramCredential.of(mechanism, salt, salted, iterations)


class Users:
    """What a broker has of the passwords of some users."""

    def __init__(self, mechanism: str, passwords: dict[str, str], salt: bytes = b"salt") -> None:
        self.mechanism = scram.MECHANISMS[mechanism]
        self.known = {user: credential(self.mechanism, password, salt) for user, password in passwords.items()}
        self.unknown = UnknownUsers(self.mechanism, SECRET, self.known)

    def credential(self, user: str) -> ScramCredential:
        return self.known.get(user) or self.unknown.credential(user)

    def scram(self, nonce: str = "servers") -> ScramServer:
        return ScramServer(self.mechanism, self.credential, nonce)

    def plain(self, configured: dict[str, str] | None = None) -> PlainServer:
        return PlainServer(configured or {}, lambda user: (self.mechanism, self.credential(user)))


class Exchange(NamedTuple):
    end: Step
    is_believed: bool
    """Whether the client believes the broker."""


def finished(step: Step) -> Step:
    return step.run() if isinstance(step, BlockingStep) else step


def exchange(
    client: Plain | Scram, server: ServerMechanism, altered: Callable[[int, bytes], bytes] | None = None
) -> Exchange:
    """``altered`` gets each message with its number, and gives the one that arrives."""
    arrive = altered or (lambda number, message: message)
    token: bytes | None = client.first()
    number = 0
    while token is not None:
        step = finished(server.step(arrive(number, token)))
        if isinstance(step, Refused):
            return Exchange(step, False)
        assert isinstance(step, Challenge | Authenticated)
        try:
            token = client.answer(arrive(number + 1, step.token))
        except (SaslError, UnicodeDecodeError):
            return Exchange(step, False)
        number += 2
        if isinstance(step, Authenticated):
            return Exchange(step, token is None)
    raise AssertionError("the client has said all, and the server wants more")


@given(NAMES, TEXTS, TEXTS, SALTS, NONCES, NONCES)
def test_the_right_password_is_believed_and_the_broker_is_too(
    mechanism: str, user: str, password: str, salt: bytes, client_nonce: str, server_nonce: str
) -> None:
    users = Users(mechanism, {user: password}, salt)
    end, is_believed = exchange(Scram(mechanism, user, password, client_nonce), users.scram(server_nonce))
    assert isinstance(end, Authenticated)
    assert end.user == user
    assert is_believed
    assert exchange(Plain(user, password), users.plain()).end == Authenticated(user)
    assert exchange(Plain(user, password), users.plain({user: password})).end == Authenticated(user)


@given(NAMES, TEXTS, TEXTS, TEXTS)
def test_any_other_password_is_refused(mechanism: str, user: str, password: str, other: str) -> None:
    users = Users(mechanism, {user: password})
    if other == password:
        other += "!"
    assert isinstance(exchange(Scram(mechanism, user, other, "mine"), users.scram()).end, Refused)
    assert isinstance(exchange(Plain(user, other), users.plain()).end, Refused)
    assert isinstance(exchange(Plain(user, other), users.plain({user: password})).end, Refused)


@given(NAMES, TEXTS, TEXTS)
def test_an_unknown_user_gets_the_answers_of_one_with_a_wrong_password(mechanism: str, user: str, other: str) -> None:
    users = Users(mechanism, {user: "secret"}, b"s" * 32)
    if other == user:
        other += "!"
    shown = []
    for name, password in ((user, "wrong"), (other, "secret")):
        client, server = Scram(mechanism, name, password, "mine"), users.scram()
        challenge = server.step(client.first())
        assert isinstance(challenge, Challenge)
        fields = dict(part.split("=", 1) for part in challenge.token.decode().split(","))
        proof = client.answer(challenge.token)
        assert proof is not None
        again = users.scram().step(client.first())
        shown.append((len(fields["s"]), fields["i"], again == challenge, server.step(proof)))
    assert shown[0] == shown[1]
    ends = [
        exchange(Plain(name, password), users.plain()).end for name, password in ((user, "wrong"), (other, "secret"))
    ]
    assert ends[0] == ends[1]


@given(st.data(), NAMES, TEXTS, TEXTS)
def test_every_single_byte_that_is_altered_on_the_way_ends_the_exchange(
    data: st.DataObject, mechanism: str, user: str, password: str
) -> None:
    users = Users(mechanism, {user: password})
    which = data.draw(st.integers(0, 3))

    def altered(number: int, message: bytes) -> bytes:
        if number != which:
            return message
        position = data.draw(st.integers(0, len(message) - 1))
        byte = data.draw(st.integers(0, 255).filter(lambda byte: byte != message[position]))
        return message[:position] + bytes([byte]) + message[position + 1 :]

    end, is_believed = exchange(Scram(mechanism, user, password, "mine"), users.scram(), altered)
    assert not is_believed
    # The last message is the broker's: it has been convinced, and the client has not.
    assert isinstance(end, Authenticated) == (which == 3)


@given(NAMES, st.lists(st.binary(max_size=60) | st.text(max_size=60).map(str.encode), max_size=4))
def test_no_message_of_a_stranger_raises_or_is_believed(mechanism: str, messages: list[bytes]) -> None:
    users = Users(mechanism, {"alice": "secret"})
    for server in (users.scram(), users.plain()):
        for message in messages:
            assert isinstance(finished(server.step(message)), Refused | Challenge)


@given(st.binary(max_size=70))
def test_one_value_has_one_text(value: bytes) -> None:
    text = scram.encode_base64(value)
    assert scram.decode_base64(text) == value
    for other in (text + "=", text + "\n", " " + text, text.rstrip("=")):
        if other != text:
            try:
                scram.decode_base64(other)
            except ValueError:
                continue
            raise AssertionError(f"{other!r} was taken for base64")


@given(TEXTS)
def test_a_name_is_escaped_and_found_again(name: str) -> None:
    escaped = scram.escaped_name(name)
    assert "," not in escaped
    assert scram.plain_name(escaped) == name
