"""Producer machines for tests: made with keywords, fed with values, asked what became of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from semel.client.config.producer import ProducerConfig
from semel.client.machine.producer.batch import Acknowledged
from semel.client.machine.producer.partitioner import Partitioner
from semel.client.machine.producer.producer import ProducerMachine
from tests.unit.client.machine.machine_bench import Bench
from tests.unit.client.machine.model_cluster import ModelCluster


@dataclass
class Producing:
    """A producer machine in a bench. A record is known by its value."""

    cluster: ModelCluster
    bench: Bench
    machine: ProducerMachine
    offsets: dict[bytes, int | None] = field(default_factory=dict)
    errors: dict[bytes, Exception] = field(default_factory=dict)

    def send(
        self,
        value: bytes,
        topic: str = "orders",
        *,
        key: bytes | None = None,
        partition: int | None = 0,
        turn: bool = True,
    ) -> None:
        self.machine.add(topic, value, key, partition, (), 0, value, self.bench.now_ms)
        if turn:
            self.turn()

    def turn(self) -> None:
        self.bench.turn()
        self.settle()

    def advance(self, ms: float) -> None:
        self.bench.advance(ms)
        self.settle()

    def settle(self) -> None:
        for settlement in self.machine.take_settled():
            for index, value in enumerate(settlement.deliveries):
                assert value not in self.offsets, f"{value} was settled twice"
                assert value not in self.errors, f"{value} was settled twice"
                if isinstance(settlement.outcome, Acknowledged):
                    base = settlement.outcome.base_offset
                    self.offsets[value] = None if base is None else base + index
                else:
                    self.errors[value] = settlement.outcome


def producing(
    cluster: ModelCluster | None = None, *, partitioner: Partitioner | None = None, seed: int = 0, **settings: Any
) -> Producing:
    """A producer that lingers for no time, unless told otherwise."""
    cluster = cluster or ModelCluster(topics={"orders": 1})
    settings = {"bootstrap_servers": cluster.bootstrap_servers, "linger_ms": 0, **settings}
    machine = ProducerMachine(ProducerConfig.load(settings), Random(seed), partitioner=partitioner)
    return Producing(cluster, Bench(machine, cluster), machine)
