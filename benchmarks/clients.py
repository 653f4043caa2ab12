"""Our client beside the others, on the same broker, in the same run: records per second out and in.

Beside each figure stands the processor time that the client took for a record, all its threads together: on a machine
that others use, too, it is the steadier of the two.
"""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.clients_consuming import CONSUMERS
from benchmarks.clients_producing import PARTITIONS, PRODUCERS, semel_send_arrow
from benchmarks.contestants import KAFKA, SEMEL_OS
from benchmarks.measuring import Effort, Measured, Row, Workload
from benchmarks.stopwatch import Taken
from benchmarks.topics import end_offsets, fresh_topic
from tools.server import Server

Figure = Callable[[str, str], float | None]

# What our client means to reach, as (ours, theirs, how many times as much).
AIMS = (
    ("semel send", "aiokafka send", 2.0),
    ("semel poll", "aiokafka getmany", 1.0),
    ("semel send_many", "confluent-kafka produce_batch", 1.0),
    ("semel send_many", "confluent-kafka produce", 1.0),
    ("semel send_arrow", "confluent-kafka produce_batch", 1.0),
    ("semel send_arrow", "confluent-kafka produce", 1.0),
    ("semel poll_arrow", "aiokafka getmany", 3.0),
)


def client_workloads() -> tuple[Workload, ...]:
    return (*map(_producing, PRODUCERS), _consuming())


def aims_table(figure: Figure) -> str:
    """Which aims are reached on which broker; nothing if no client was measured."""
    lines = []
    for ours, theirs, aim in AIMS:
        cells = []
        for contestant in (SEMEL_OS, KAFKA):
            mine, other = figure(_key(ours), contestant), figure(_key(theirs), contestant)
            if mine and other:
                missed = " (missed)" if mine < aim * other else ""
                cells.append(f"{contestant}: {mine / other:.2f} x{missed}")
        if cells:
            lines.append(f"{ours} : {theirs}, aim {aim:g} x; " + ", ".join(cells))
    return "\n".join(lines)


def _key(name: str) -> str:
    return "clients-" + name.replace(" ", "-")


def _rows(name: str) -> tuple[Row, Row]:
    key = _key(name)
    return (
        Row(key, f"{name}, 100 B", "records/s"),
        Row(f"{key}-cpu", f"... {name}: the client's processor time for each", "\u00b5s", higher_is_better=False),
    )


def _figures(name: str, taken: Taken) -> dict[str, float]:
    speed, cost = _rows(name)
    return {speed.key: taken.records / taken.elapsed_s, cost.key: 1e6 * taken.processor_s / taken.records}


def _producing(name: str) -> Workload:
    def measure(server: Server, effort: Effort) -> Measured:
        with fresh_topic(server, PARTITIONS) as topic:
            taken = PRODUCERS[name](server.bootstrap_servers, topic, effort.seconds)
            stored = sum(end_offsets(server, topic, PARTITIONS)) - 1  # The first record brings the connection.
            assert stored == taken.records, f"{name}: {taken.records} records were sent and {stored} are stored"
        return Measured(_figures(name, taken))

    return Workload(name, _rows(name), measure, only=frozenset({SEMEL_OS, KAFKA}))


def _consuming() -> Workload:
    """One topic for all, as much as we write in as many seconds as one measurement takes."""

    def measure(server: Server, effort: Effort) -> Measured:
        figures: dict[str, float] = {}
        with fresh_topic(server, PARTITIONS) as topic:
            servers = server.bootstrap_servers
            count = semel_send_arrow(servers, topic, effort.seconds / 4).records + 1
            for name, consume in CONSUMERS.items():
                figures |= _figures(name, consume(servers, topic, count))
        return Measured(figures)

    rows = tuple(row for name in CONSUMERS for row in _rows(name))
    return Workload("clients reading", rows, measure, only=frozenset({SEMEL_OS, KAFKA}))
