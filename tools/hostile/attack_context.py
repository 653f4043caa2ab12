"""The argument of every attack (``AttackContext``), the description of an attack, and the list of all attacks.

An attack records how the broker answered (``noted``) and what it should not have done (``finding``). It ends by itself:
sockets have timeouts, loops have counts, and long ones check ``expired``.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import TypeAlias

from semel.wire.apis import ApiKey
from semel.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tools.hostile.attack_connection import CLOSED, HOST, SILENT, AttackConnection, response_word

SECONDS_MAX = 60.0


@dataclass
class AttackContext:
    """The attacked broker, the size of the attack, and its results. ``scale`` 1.0 is the campaign's size."""

    port: int
    metrics_port: int | None = None
    secured_ports: Mapping[str, int] = field(default_factory=dict)
    """The ports of listeners with TLS or SASL, by their security protocol."""
    scale: float = 1.0
    random: Random = field(default_factory=lambda: Random(0))
    answers: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)
    _until: float = field(default_factory=lambda: time.monotonic() + SECONDS_MAX)
    _topics: int = 0

    def times(self, count: int, *, least: int = 1) -> int:
        return max(least, int(count * self.scale))

    @property
    def expired(self) -> bool:
        """Whether the time of the attack is over, or the broker has stopped."""
        return time.monotonic() > self._until or self.stopped.is_set()

    def connect(
        self, *, timeout_s: float = 60.0, receive_buffer_bytes: int | None = None, source: str = HOST
    ) -> AttackConnection:
        """Open a connection. ``source`` is another address of this machine, for limits that count by address."""
        return AttackConnection(
            self.port, timeout_s=timeout_s, receive_buffer_bytes=receive_buffer_bytes, source=source
        )

    def noted(self, response: object) -> str:
        word = response_word(response)
        self.answers[word] += 1
        return word

    def must_refuse(self, what: str, response: object) -> None:
        """Record the answer. It is a finding if the broker accepted the request, or did not answer."""
        word = self.noted(response)
        if word in ("NONE", SILENT, "UNKNOWN_SERVER_ERROR"):
            self.finding(f"{what}: {'accepted' if word == 'NONE' else word}")

    def must_answer(self, what: str, response: object) -> None:
        word = self.noted(response)
        if word in (SILENT, CLOSED, "UNKNOWN_SERVER_ERROR"):
            self.finding(f"{what}: {word}")

    def finding(self, text: str) -> None:
        if len(self.findings) < 20:
            self.findings.append(text[:300])

    def new_topic(self, *, partitions: int = 1, **configs: str) -> str:
        """Create a topic for this attack. ``cleanup_policy="compact"`` sets ``cleanup.policy``."""
        name, answer = self.ask_for_topic(partitions=partitions, **configs)
        assert answer in ("NONE", "TOPIC_ALREADY_EXISTS"), f"{name}: {answer}"
        return name

    def ask_for_topic(self, *, partitions: int = 1, **configs: str) -> tuple[str, str]:
        """Try to create a topic, as ``new_topic`` does, when the broker may fail. Return the name and the answer."""
        self._topics += 1
        name = f"target-{self.random.getrandbits(48):x}-{self._topics}"
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()],
        )
        with self.connect(timeout_s=60) as client:
            response = client.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[topic], timeout_ms=60_000))
        return name, response_word(response)


AttackRun: TypeAlias = Callable[[AttackContext], None]


@dataclass(frozen=True)
class Attack:
    """One attack. ``while_stopping`` runs in a thread while the broker stops, until ``AttackContext.expired`` or it has
    ended.

    ``descriptors_max`` is how many files and sockets the broker may have open, if the attack is about that limit.
    """

    name: str
    run: AttackRun
    while_stopping: AttackRun | None = None
    descriptors_max: int | None = None


ATTACKS: dict[str, Attack] = {}


def attack(run: AttackRun) -> AttackRun:
    """Add a function to the list of attacks, under its own name with hyphens."""
    add(Attack(run.__name__.replace("_", "-"), run))
    return run


def add(new: Attack) -> None:
    assert new.name not in ATTACKS, new.name
    ATTACKS[new.name] = new
