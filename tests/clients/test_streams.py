"""Kafka Streams 4.3 on Semel, unmodified: exactly_once_v2 with a repartition topic, a RocksDB store and its changelog.

Two instances share the work. One is killed, the broker is killed, and every count is there once. The streams group
protocol (KIP-1071) is not served: an application that insists on it is told so, and the default is the classic one.
"""

from __future__ import annotations

import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from semel import blocking
from tools.brokers import semel
from tools.kafka_jars import KAFKA_4, STREAMS, application_jars, jars_of, java
from tools.load import create_topic
from tools.patience import PATIENCE_S, wait_until
from tools.server import Server, running

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.needs("kafka", STREAMS, "javac"),
    pytest.mark.xdist_group("streams"),
]

PROGRAM = Path(__file__).parent / "java" / "WordCounts.java"
WORDS = ("semel", "bis", "ter", "quater", "quinquies")
ROUNDS = 300


class Application:
    """One instance, and what it has printed."""

    def __init__(self, folder: Path, servers: str, protocol: str = "") -> None:
        libraries = f"{jars_of(KAFKA_4)}/*:{application_jars(STREAMS)}/*"
        options = ["-Xmx256m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", libraries]
        self._process = subprocess.Popen(
            [java(), *options, str(PROGRAM), servers, str(folder), protocol],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip())

    def has_printed(self, beginning: str) -> bool:
        assert self._process.poll() is None or any(line.startswith(beginning) for line in self.lines), self.lines
        return any(line.startswith(beginning) for line in self.lines)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def exit_code(self) -> int:
        code = self._process.wait(PATIENCE_S)
        self._reader.join()
        return code


@contextmanager
def application(folder: Path, server: Server, protocol: str = "") -> Iterator[Application]:
    started = Application(folder, server.bootstrap_servers, protocol)
    try:
        yield started
    finally:
        started.kill()


def send(server: Server, rounds: int) -> None:
    with blocking.Producer(bootstrap_servers=server.bootstrap_servers) as producer:
        for number in range(rounds):
            for word in WORDS:
                producer.send("words", word.encode(), key=str(number).encode())


class Counts:
    """What a read_committed consumer sees of the output, in order."""

    def __init__(self, server: Server) -> None:
        self.seen: dict[str, list[int]] = {word: [] for word in WORDS}
        self.consumer = blocking.Consumer(
            bootstrap_servers=server.bootstrap_servers,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        self.consumer.assign([("counts", 0)])

    def last(self) -> Counter[str]:
        for record in self.consumer.poll(1000):
            assert record.key is not None
            assert record.value is not None
            self.seen[record.key.decode()].append(int(record.value))
        return Counter({word: counts[-1] for word, counts in self.seen.items() if counts})


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with running(semel(tmp_path / "broker", settings={"group.initial.rebalance.delay.ms": "0"})) as server:
        create_topic(server.bootstrap_servers, "words", partitions=4)
        create_topic(server.bootstrap_servers, "counts", partitions=1)
        yield server


def test_two_instances_count_every_word_once_while_one_and_the_broker_are_killed(
    server: Server, tmp_path: Path
) -> None:
    counts = Counts(server)
    with counts.consumer, application(tmp_path / "a", server) as first:
        wait_until(lambda: first.has_printed("STATE RUNNING"), lambda: first.lines)
        with application(tmp_path / "b", server) as second:
            send(server, ROUNDS)
            wait_until(lambda: counts.last().total() > ROUNDS, lambda: (counts.last(), first.lines, second.lines))
            first.kill()
            send(server, ROUNDS)
            wait_until(lambda: counts.last().total() > 6 * ROUNDS, lambda: (counts.last(), second.lines))
            server.kill()
            server.start()
            send(server, ROUNDS)
            expected = Counter(dict.fromkeys(WORDS, 3 * ROUNDS))
            wait_until(lambda: counts.last() == expected, lambda: (counts.last(), second.lines))
    assert counts.seen == {word: list(range(1, 3 * ROUNDS + 1)) for word in WORDS}


def test_the_streams_group_protocol_is_refused_with_a_sentence(server: Server, tmp_path: Path) -> None:
    with application(tmp_path / "a", server, "streams") as insisting:
        assert insisting.exit_code() == 3
    assert any("UnsupportedVersionException" in line for line in insisting.lines), insisting.lines
