"""A broker for tests: how soon it is there, what it takes, and how long a suite of fifty tests lasts with it.

Semel is ``semel.testing.Broker`` inside the test process, once for the whole suite and once for every test. Apache
Kafka is what a container would hold, one process for the whole suite and topics of their own for every test: nobody
starts fifty of them. The suite is the same, with the same client, in a process of its own:
``python -m benchmarks.fixture``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks.contestants import KAFKA, SEMEL_COMMIT, Contestant
from benchmarks.measuring import Effort, LifecycleWorkload, Measured, Row

RECORDS: Final = 10
_STARTS: Final = 5


def fixture_workload(start: Row, memory: Row, shared: Row, fresh: Row) -> LifecycleWorkload:
    def measure(contestant: Contestant, folder: Path, effort: Effort) -> Measured:
        if contestant.name == KAFKA:
            start_s, resident_bytes, shared_s = _beside(contestant, folder, effort.tests)
            fresh_s = shared_s
        else:
            flush = "commit" if contestant.name == SEMEL_COMMIT else "os"
            start_s, resident_bytes, shared_s, fresh_s = _in_a_process("--flush", flush, "--tests", str(effort.tests))
        return Measured(
            {start.key: start_s * 1000, memory.key: resident_bytes / 1e6, shared.key: shared_s, fresh.key: fresh_s}
        )

    return LifecycleWorkload("a broker for tests", (start, memory, shared, fresh), measure)


def _beside(contestant: Contestant, folder: Path, tests: int) -> tuple[float, float, float]:
    """With a broker that is a process: seconds to start, bytes, seconds of the suite from start to stop."""
    server = contestant.make(folder)
    started = time.perf_counter()
    start_s = server.start()
    try:
        _in_a_process("--servers", server.bootstrap_servers, "--tests", str(tests))
        resident_bytes = server.resident_bytes()
    finally:
        server.stop()
    return start_s, resident_bytes, time.perf_counter() - started


def _in_a_process(*arguments: str) -> list[float]:
    command = [sys.executable, "-m", "benchmarks.fixture", *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent.parent)
    figures: list[float] = json.loads(done.stdout)
    return figures


# -- the process with the suite


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fixture", description=__doc__)
    parser.add_argument("--servers", help="a broker that runs already; else one is started inside this process")
    parser.add_argument("--flush", default="commit", choices=("commit", "os"))
    parser.add_argument("--tests", type=int, default=50)
    options = parser.parse_args()
    if options.servers is not None:
        for number in range(options.tests):
            one_test(options.servers, number)
        print("[]")
        return 0
    print(json.dumps(_embedded(options.flush, options.tests)))
    return 0


def _embedded(flush: str, tests: int) -> tuple[float, float, float, float]:
    # Imported here: what a test process without the fixture weighs is measured first.
    from semel.blocking import Consumer, Producer  # noqa: F401 (the client is the test's own)

    bytes_before = _resident_bytes()
    from semel.testing import Broker

    def start_and_stop() -> float:
        broker = Broker(flush=flush)
        start_s = timed(lambda: broker.start())
        broker.stop()
        return start_s

    resident_bytes = 0

    def with_one_for_all() -> None:
        nonlocal resident_bytes
        with Broker(flush=flush) as broker:
            for number in range(tests):
                one_test(broker.bootstrap_servers, number)
            resident_bytes = _resident_bytes() - bytes_before

    def with_one_for_each() -> None:
        for number in range(tests):
            with Broker(flush=flush) as broker:
                one_test(broker.bootstrap_servers, number)

    start_s = statistics.median(start_and_stop() for _ in range(_STARTS))
    shared_s = timed(with_one_for_all)
    return start_s, resident_bytes, shared_s, timed(with_one_for_each)


def one_test(servers: str, number: int) -> None:
    """Records are written; a transaction copies them, with how far it has read; a reader sees each of them once."""
    from semel.blocking import Admin, Consumer, Producer

    source, target, name = f"orders-{number}", f"invoices-{number}", f"billing-{number}"
    values = [b"order %d" % index for index in range(RECORDS)]
    with Admin(bootstrap_servers=servers) as admin:
        for topic in (source, target):
            admin.topics.create(topic, partitions=1)
    committed = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    with (
        Producer(bootstrap_servers=servers, transactional_id=name, linger_ms=0) as producer,
        Consumer(bootstrap_servers=servers, group_id=name, enable_auto_commit=False, **committed) as consumer,  # type: ignore[arg-type]
    ):
        with producer.transaction():
            for value in values:
                producer.send(source, value, partition=0)
        consumer.assign([(source, 0)])
        copied = 0
        while copied < RECORDS:
            records = consumer.poll(1000)
            with producer.transaction(consumer=consumer):
                for record in records:
                    producer.send(target, record.value, partition=0)
            copied += len(records)
    seen: list[bytes | None] = []
    with Consumer(bootstrap_servers=servers, **committed) as reader:  # type: ignore[arg-type]
        reader.assign([(target, 0)])
        while len(seen) < RECORDS:
            seen += (record.value for record in reader.poll(1000))
    assert seen == values, f"test {number}: {seen} instead of {values}"


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("/proc/self/status has no VmRSS")


if __name__ == "__main__":
    sys.exit(main())
