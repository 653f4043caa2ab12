"""Strangers attack a broker and a well-behaved client beside them notices nothing: the short form of
``make campaign-hostile``.

Nothing here depends on time: the attacks are small, and judged are refusals, memory, the log, the canary's records, and
that the broker stops and starts. The campaign adds the canary's longest wait.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from semel.types import INTERNAL_TOPICS
from semel.wire.apis import ApiKey
from semel.wire.messages.metadata import MetadataRequest
from tests.clients import planted_broker
from tools.brokers import semel
from tools.hostile.attack_context import ATTACKS, Attack, AttackContext
from tools.hostile.attacks import compressed
from tools.hostile.attacks.flow import filled_topic
from tools.hostile.attacks.produced import produce
from tools.hostile.attacks.requests import fetch_frame
from tools.hostile.batches import sound_batch
from tools.hostile.canary import TOPIC
from tools.hostile.secured import PROTOCOLS, secured_broker
from tools.hostile.trial import SETTINGS, Trial, withstand
from tools.server import Server

pytestmark = pytest.mark.timeout(600)

SCALE = 0.005

# They need a broker of their own, because others make topics.
FEW_DESCRIPTORS = [attack for attack in ATTACKS.values() if attack.descriptors_max is not None]

# A process does not give back at once what it unpacked batches into; others are not to be judged by that.
UNPACKED = [attack for attack in ATTACKS.values() if getattr(attack.run, "__module__", "") == compressed.__name__]
OTHERS = [attack for attack in ATTACKS.values() if attack not in UNPACKED and attack not in FEW_DESCRIPTORS]


def tried(folder: Path, *attacks: Attack, bug: str | None = None) -> Trial:
    server = semel(folder, settings=SETTINGS)
    return withstand(server if bug is None else planted(server, bug), attacks, scale=SCALE)


def planted(server: Server, bug: str) -> Server:
    program = [sys.executable, str(Path(planted_broker.__file__)), bug]
    return Server(replace(server.launch, command=[*program, *server.launch.command[1:]]))


@pytest.mark.parametrize("attacks", [UNPACKED, OTHERS], ids=["what is unpacked", "all others"])
def test_no_attack_is_noticed_by_the_client_beside_it(tmp_path: Path, attacks: list[Attack]) -> None:
    trial = tried(tmp_path, *attacks)
    assert trial.all_findings() == []
    assert [result.attack for result in trial.results] == [attack.name for attack in attacks]
    assert trial.produced > len(attacks)


def test_a_broker_with_few_descriptors_goes_on_when_they_are_used_up(tmp_path: Path) -> None:
    assert tried(tmp_path, *FEW_DESCRIPTORS).all_findings() == []


@pytest.mark.parametrize(
    ("bug", "attack", "found"),
    [
        ("believes_every_header", "headers-that-lie", "no records, last delta 0, Produce v9: accepted"),
        ("takes_any_records", "records-that-lie", "junk, Produce v9: accepted"),
        ("takes_records_without_keys", "records-without-a-key-to-a-compacted-topic", "accepted"),
        ("stumbles_over_garbage", "bytes-that-are-no-protocol", "tracebacks in the log"),
        ("logs_texts_as_they_are", "newlines-in-every-text", "a stranger wrote a line of the log"),
    ],
)
def test_a_planted_bug_is_found(tmp_path: Path, bug: str, attack: str, found: str) -> None:
    findings = tried(tmp_path, ATTACKS[attack], bug=bug).all_findings()
    assert any(found in text for text in findings), findings


SESSIONS = ATTACKS["sessions-that-begin-well"]


def test_sessions_on_every_kind_of_listener_are_not_noticed_by_the_client_beside_them(tmp_path: Path) -> None:
    trial = withstand(secured_broker(tmp_path), [SESSIONS], scale=SCALE)
    assert trial.all_findings() == []
    answers = trial.results[0].answers
    assert {"sessions PLAINTEXT", *(f"sessions {protocol}" for protocol in PROTOCOLS)} <= answers.keys()
    assert answers["frames"] >= 300
    assert min(answers["answered"], answers["logins broken"], answers["handshakes broken"]) > 0


def test_a_broker_that_stumbles_over_the_tokens_of_strangers_is_found(tmp_path: Path) -> None:
    server = planted(secured_broker(tmp_path), "stumbles_over_tokens")
    findings = withstand(server, [SESSIONS], scale=4 * SCALE).all_findings()
    assert any("tracebacks in the log" in text for text in findings), findings


def test_a_broker_without_a_budget_for_answers_is_found(tmp_path: Path) -> None:
    patient = Attack("patient", forty_clients_whose_answers_are_made)
    findings = tried(tmp_path, patient, bug="has_no_budget_for_answers").all_findings()
    assert any("memory: " in text for text in findings), findings


def forty_clients_whose_answers_are_made(context: AttackContext) -> None:
    """None of them reads, and the attack goes on until each has the first byte of an answer of 15 MB."""
    frame = fetch_frame(filled_topic(context, 15 * 2**20))
    with ExitStack() as stack:
        clients = [stack.enter_context(context.connect(timeout_s=300, receive_buffer_bytes=4096)) for _ in range(40)]
        for client in clients:
            client.send(frame)
        for client in clients:
            client.socket.recv(1, socket.MSG_PEEK)


def into_the_canarys_topic(context: AttackContext) -> None:
    with context.connect() as client:
        context.noted(produce(client, TOPIC, sound_batch(b"not the canary's")))


def stop_for_a_while(context: AttackContext, server: Server) -> None:
    os.kill(server.pid, signal.SIGSTOP)
    time.sleep(0.5)
    os.kill(server.pid, signal.SIGCONT)


def test_an_attack_begins_when_the_internal_topics_are_made(tmp_path: Path) -> None:
    """Otherwise its waits would be those for the files of a hundred partitions."""
    seen: list[str | None] = []

    def look(context: AttackContext) -> None:
        with context.connect() as client:
            response = client.ask(ApiKey.METADATA, 9, MetadataRequest(topics=None))
            assert not isinstance(response, str), response
            seen.extend(topic.name for topic in response.topics)

    trial = withstand(semel(tmp_path, settings=SETTINGS), [Attack("look", look)])
    assert trial.all_findings() == []
    assert set(seen) == {TOPIC, *INTERNAL_TOPICS}


def test_the_canary_sees_a_record_that_is_not_its_own(tmp_path: Path) -> None:
    trial = withstand(semel(tmp_path, settings=SETTINGS), [Attack("intruder", into_the_canarys_topic)])
    assert not trial.sound
    assert any("not the canary's" in text for text in trial.all_findings())


def test_the_canary_sees_that_the_broker_stood_still(tmp_path: Path) -> None:
    server = semel(tmp_path, settings=SETTINGS)
    trial = withstand(server, [Attack("still", lambda context: stop_for_a_while(context, server))])
    assert trial.sound
    assert not trial.passed
    assert trial.results[0].canary.broker_ms >= 250
    assert any("still: the canary waited" in text for text in trial.failures())
