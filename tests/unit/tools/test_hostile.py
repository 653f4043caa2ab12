"""The attacks are what they say: every API and version is in the fuzz, every list is widened, a seed is a seed."""

from __future__ import annotations

import struct
from dataclasses import replace
from itertools import islice
from random import Random

import pytest

import tools.hostile.attacks  # noqa: F401 (importing it fills ATTACKS)
from semel.broker.requests.routes import served_apis
from semel.errors import DecodeError
from semel.wire.apis import APIS
from semel.wire.codec import decode
from semel.wire.compression import Codec, decompress
from semel.wire.framing import decode_request_header
from semel.wire.records import iterate_records, parse_header, verify_crc
from tools.hostile.attack_connection import response_word
from tools.hostile.attack_context import ATTACKS
from tools.hostile.attacks.widened import lists_of, widened
from tools.hostile.batches import bombs, raw_batch, records, sound_batch, tiny_records
from tools.hostile.canary import Waits, value_of
from tools.hostile.fuzz import mutated, requests
from tools.hostile.trial import Result, Trial

PAIRS = {(api.key, version) for api in served_apis() for version in range(api.min_version, api.max_version + 1)}


def test_one_round_of_the_fuzz_holds_every_api_in_every_version_and_all_of_it_can_be_decoded() -> None:
    seen = set()
    for frame in islice(requests(Random(1)), len(PAIRS)):
        assert struct.unpack(">i", frame[:4])[0] == len(frame) - 4
        header, position = decode_request_header(frame[4:])
        decode(APIS[header.api_key].request_class, frame[4:], header.api_version, position)
        seen.add((header.api_key, header.api_version))
    assert seen == PAIRS


def test_the_same_seed_gives_the_same_frames_broken_in_the_same_way() -> None:
    def frames(seed: int) -> list[bytes]:
        random = Random(seed)
        return [mutated(frame, random) for frame in islice(requests(random), 500)]

    assert frames(7) == frames(7)
    assert frames(7) != frames(8)


def test_every_list_of_every_request_is_an_attack_and_is_as_long_as_it_says() -> None:
    for api in served_apis():
        for way in lists_of(api.request_class, api.max_version):
            name = f"wide-{api.name}-{'-'.join(field.name for field in way)}".replace("_", "-")
            assert name in ATTACKS
            value = widened(api.request_class, way, api.max_version, 3)
            for field in way[:-1]:
                value = getattr(value, field.name)
                value = value[0] if isinstance(value, list) else value
            assert len(getattr(value, way[-1].name)) == 3


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_that_does_not_lie_is_sound(codec: Codec) -> None:
    batch = sound_batch(b"a", b"b", codec=codec)
    assert verify_crc(batch, 0, parse_header(batch))
    assert [record.value for record in iterate_records(batch)] == [b"a", b"b"]


def test_tiny_records_are_records() -> None:
    batch = raw_batch(tiny_records(300, numbered=True), count=300)
    assert [record.offset for record in iterate_records(batch)] == list(range(300))
    assert len(tiny_records(300, numbered=False)) == 300 * 7


@pytest.mark.parametrize("name", ["gzip", "snappy", "lz4", "zstd"])
def test_a_bomb_unpacks_to_what_it_is_meant_to_and_is_small(name: str) -> None:
    codec, build = bombs(8 * 2**20)[name]
    block = build()
    assert len(block) < 2**20
    assert decompress(codec, block, size_max=8 * 2**20) == bytes(8 * 2**20)
    with pytest.raises(DecodeError):
        decompress(codec, block, size_max=8 * 2**20 - 1)


def test_an_answer_is_told_by_the_first_error_in_it() -> None:
    api = next(api for api in served_apis() if api.name == "Produce")
    response = api.response_class()
    assert response_word(response) == "NONE"
    assert response_word("closed") == "closed"


def test_records_of_the_canary_differ_and_some_are_large() -> None:
    values = [value_of(number) for number in range(100)]
    assert len(set(values)) == 100
    assert sum(len(value) > 100_000 for value in values) == 10
    assert len(records(3)) > 0


def result(broker_ms: int) -> Result:
    waits = Waits(broker_ms=broker_ms, broker_at="produce", longest_ms=400)
    return Result("attack", 1.0, {}, [], 100, 1.0, longest_turn_ms=7, canary=waits)


def test_a_trial_that_fails_says_why() -> None:
    late = Trial(results=[result(250), result(251)])
    assert not late.passed
    (text,) = late.failures()
    assert text.startswith("attack: the canary waited 251 ms (produce); the limit is 250 ms")
    assert Trial(results=[result(250)], stop_seconds=10.0).failures() == []
    assert Trial(stop_seconds=10.5).failures() == ["SIGTERM took 10.5 s; the limit is 10.0 s"]
    found = Trial(results=[replace(result(0), findings=["accepted"])], findings=["the end"])
    assert found.failures() == ["the end", "attack: accepted"]
    assert (late.sound, found.sound) == (True, False), "time is judged apart"
