"""Bytes that nobody promised anything about: a decoder returns or raises ``DecodeError``, and takes little memory."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semel.errors import DecodeError
from semel.wire.codec import decode, decoder, encode, request_decoder, sliced_decoder
from tests.memory import peak_bytes
from tests.properties.wire.message_strategies import legal_in, message_classes, messages, versions, with_one_of_each

MUTATIONS_PER_MESSAGE = 25

every_message = pytest.mark.parametrize(
    "message_class", message_classes(), ids=lambda message_class: message_class.__name__
)
few_examples = settings(max_examples=4, derandomize=True, database=None, suppress_health_check=list(HealthCheck))


@every_message
def test_random_bytes_raise_nothing_but_decode_error(message_class: type[Any]) -> None:
    chance = random.Random(message_class.__name__)
    for version in versions(message_class):
        for _ in range(MUTATIONS_PER_MESSAGE):
            with contextlib.suppress(DecodeError):
                decode(message_class, chance.randbytes(chance.randrange(100)), version)


@every_message
@few_examples
@given(data=st.data())
def test_mutated_messages_raise_nothing_but_decode_error(message_class: type[Any], data: st.DataObject) -> None:
    message = data.draw(messages(message_class))
    chance = random.Random(message_class.__name__)
    for version in versions(message_class):
        for damaged in _damaged(bytes(encode(legal_in(message, version), version)), chance):
            with contextlib.suppress(DecodeError):
                decode(message_class, damaged, version)


@every_message
def test_a_message_cut_anywhere_or_followed_by_anything_is_refused(message_class: type[Any]) -> None:
    for version in versions(message_class):
        encoded = bytes(encode(legal_in(with_one_of_each(message_class), version), version))
        for size in range(len(encoded)):
            with pytest.raises(DecodeError):
                decode(message_class, encoded[:size], version)
        with pytest.raises(DecodeError, match="the message is over and 1 bytes are left"):
            decode(message_class, encoded + b"\0", version)


@every_message
def test_what_follows_a_request_is_ignored(message_class: type[Any]) -> None:
    for version in versions(message_class):
        message = legal_in(with_one_of_each(message_class), version)
        encoded = bytes(encode(message, version)) + b"\0\x01"
        assert request_decoder(message_class, version)(encoded, 0) == decode(message_class, encoded[:-2], version)
        steps = sliced_decoder(message_class, version)(encoded, 0, 1_000)
        with pytest.raises(StopIteration) as end:
            next(steps)
        assert end.value.value[0] == decode(message_class, encoded[:-2], version)


@every_message
def test_a_length_that_promises_gigabytes_allocates_nothing(message_class: type[Any]) -> None:
    version = versions(message_class)[-1]
    decoder(message_class, version)
    for promising in _with_huge_lengths(bytes(encode(with_one_of_each(message_class), version))):
        decode = partial(_decode, message_class, promising, version)
        decode()  # The first one compiles the decoder.
        # A table of the interpreter's own may grow just then, once.
        assert any(peak_bytes(decode) < 32_768 for _ in range(2))


def _decode(message_class: type[Any], encoded: bytes, version: int) -> None:
    with contextlib.suppress(DecodeError):
        decode(message_class, encoded, version)


def _damaged(encoded: bytes, chance: random.Random) -> Iterator[bytes]:
    """Some neighbours of a message: bytes changed, cut out, put in; lengths at their limits."""
    for _ in range(MUTATIONS_PER_MESSAGE):
        damaged = bytearray(encoded)
        for _ in range(chance.randint(1, 3)):
            # Most lengths stand near the beginning, and a large message is mostly records.
            start = chance.randrange(min(len(damaged), 300) + 1)
            stop = start + chance.choice((0, 1, 1, 1, 2, 4))
            damaged[start:stop] = chance.choice(
                (b"", b"\0", b"\x7f", b"\x80", b"\xff", b"\x7f\xff\xff\xff", b"\xff" * 5, chance.randbytes(1))
            )
        yield bytes(damaged)


def _with_huge_lengths(encoded: bytes) -> Iterator[bytes]:
    for position in range(len(encoded)):
        yield encoded[:position] + b"\x7f\xff\xff\xff" + encoded[position + 4 :]
        yield encoded[:position] + b"\xff\xff\xff\xff\x07" + encoded[position + 1 :]
