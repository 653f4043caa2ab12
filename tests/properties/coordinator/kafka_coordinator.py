"""Apache Kafka's own transaction coordinator as a process: see ``KafkaCoordinator.java``."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from semel.coordinator.transaction.records import Transaction
from tools.kafka_jars import KAFKA_4, jars_of, java

_SOURCE = Path(__file__).with_name("KafkaCoordinator.java")


class State(NamedTuple):
    """The fields that both sides have, as Kafka writes them. (Its last epoch lives in memory only.)"""

    state: int
    producer_id: int
    producer_epoch: int
    last_producer_id: int
    next_producer_id: int
    timeout_ms: int
    started_ms: int
    updated_ms: int
    client_transaction_version: int
    partitions: str

    @classmethod
    def of(cls, transaction: Transaction | None) -> State | None:
        if transaction is None:
            return None
        return cls(
            transaction.state,
            transaction.producer_id,
            transaction.producer_epoch,
            -1 if transaction.last_producer_id is None else transaction.last_producer_id,
            -1 if transaction.next_producer_id is None else transaction.next_producer_id,
            transaction.timeout_ms,
            -1 if transaction.started_ms is None else transaction.started_ms,
            transaction.updated_ms,
            transaction.client_transaction_version,
            f"[{','.join(str(partition.partition) for partition in sorted(transaction.partitions))}]",
        )


class Kafka:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, *command: object) -> tuple[str, State | None]:
        """The answer, and the state after it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(" ".join(map(str, command)) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("> "):
                answer, _, state = line[2:].rstrip("\n").partition(" | ")
                return answer, _state(state)
        raise AssertionError("the coordinator of Kafka has ended; it takes a JDK, which runs Java from its source")


def _state(line: str) -> State | None:
    if line == "none":
        return None
    *numbers, partitions = line.split(" ")
    values = [int(number) for number in numbers]
    return State._make([*values, partitions])


@contextmanager
def kafka_coordinator() -> Iterator[Kafka]:
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
    command = [java(), quiet, "-cp", f"{jars_of(KAFKA_4)}/*", str(_SOURCE)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Kafka(process)
        finally:
            process.kill()
