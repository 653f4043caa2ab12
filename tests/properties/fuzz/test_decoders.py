"""Every decoder that takes what others wrote: the short form of the first part of ``make campaign-fuzz``.

Messages of the protocol have tests of their own in ``tests/properties/wire``; here is everything else.
"""

from __future__ import annotations

import struct
from random import Random

import pytest

from semel.errors import DecodeError
from semel.wire.apis import APIS
from tools.fuzz.mutation import GROWTH_BYTES_MAX, mutated
from tools.fuzz.run import MEMORY_EVERY, Outcome, run_seed
from tools.fuzz.target import Target
from tools.fuzz.targets import all_targets

RUNS = 160
TAKE_ANYTHING = {"JAAS", "properties", "block of none"}
MESSAGES = {
    message_class.__name__ for api in APIS.values() for message_class in (api.request_class, api.response_class)
}
OTHERS = [target for target in all_targets() if target.name.split(" ")[0] not in MESSAGES]


@pytest.mark.parametrize("target", OTHERS, ids=lambda target: target.name)
def test_nothing_but_success_or_a_refusal(target: Target) -> None:
    outcome = run_seed([target], seed=1, runs=RUNS, seconds_max=None)
    assert outcome.findings == []
    assert outcome.answers["refused"] + outcome.answers["taken"] == outcome.runs >= RUNS
    assert outcome.answers["refused"] > 0 or target.name in TAKE_ANYTHING


def test_every_message_in_every_version_is_a_target() -> None:
    names = {target.name for target in all_targets()}
    assert len(names) == len(all_targets())
    for api in APIS.values():
        for version in range(api.min_version, api.max_version + 1):
            assert {f"{api.name}Request v{version}", f"{api.name}Response v{version}"} <= names


def test_the_same_seed_gives_the_same_inputs() -> None:
    def inputs(seed: int) -> list[bytes]:
        seen: list[bytes] = []
        run_seed([Target("seen", lambda random: random.randbytes(20), seen.append)], seed, 200, seconds_max=None)
        return seen

    assert inputs(3) == inputs(3)
    assert inputs(3) != inputs(4)


def test_a_mutation_does_not_blow_an_input_up() -> None:
    random = Random(1)
    for _ in range(3000):
        data = random.randbytes(random.randrange(100))
        assert len(mutated(data, b"other" * 100, random)) <= len(data) + GROWTH_BYTES_MAX


# Decoders that are wrong


def first_number(data: bytes) -> None:
    struct.unpack_from(">i", data)


def only_text(data: bytes) -> None:
    if not data.isascii():
        raise DecodeError("not text")


def of_any_length(data: bytes) -> None:
    bytearray(2**21)


def not_itself(data: bytes) -> None:
    assert data[:1] != b"\x01", "it became another"


def judged(check: object, sound: bytes) -> Outcome:
    return run_seed([Target("wrong", lambda random: sound, check)], 1, 4 * MEMORY_EVERY, seconds_max=None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("check", "sound", "found"),
    [
        (first_number, b"\0\0\0\0", "wrong: error: unpack_from requires"),
        (only_text, b"\xff", "wrong: a sound input is refused: not text"),
        (of_any_length, b"", "bytes allocated; the limit is"),
        (not_itself, b"\x01\x01", "AssertionError: it became another"),
    ],
)
def test_a_decoder_that_is_wrong_is_found(check: object, sound: bytes, found: str) -> None:
    outcome = judged(check, sound)
    assert not outcome.passed
    assert any(found in finding for finding in outcome.findings), outcome.findings


def test_a_decoder_that_does_not_end_is_found() -> None:
    """By its own time of the processor, so it is found on a busy machine too, and nothing else is."""

    def without_end(data: bytes) -> None:
        while data:
            pass

    outcome = run_seed([Target("endless", lambda random: b"\x01", without_end)], 1, 1, seconds_max=0.02)
    assert outcome.answers["too slow"] >= 1
