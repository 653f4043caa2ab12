"""Starting, memory, and coming back after ``kill -9``: each with a broker of its own."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

from benchmarks.contestants import Contestant
from benchmarks.librdkafka import PARTITIONS, produce_for
from benchmarks.measuring import Effort, LifecycleWorkload, Measured, Row
from benchmarks.raw_load import connected
from tools.frames import now_ms, produce_request, produce_response_error, receive_frame, record_batch
from tools.load import create_topic
from tools.server import Server, running


def start_workload(ready: Row, memory: Row) -> LifecycleWorkload:
    def measure(contestant: Contestant, folder: Path, effort: Effort) -> Measured:
        server = contestant.make(folder)
        taken_s = []
        for _ in range(effort.starts):
            taken_s.append(server.start())
            # What is only needed for starting should be given back before memory is looked at.
            time.sleep(1.0)
            resident = server.resident_bytes()
            server.stop()
        return Measured({ready.key: statistics.median(taken_s), memory.key: resident / 1e6})

    return LifecycleWorkload("start to ready", (ready, memory), measure)


def recovery_workload(row: Row) -> LifecycleWorkload:
    """From starting a killed broker to the first record it acknowledges on a topic that holds a gigabyte."""

    def measure(contestant: Contestant, folder: Path, effort: Effort) -> Measured:
        with running(contestant.make(folder)) as server:
            topic = "recovered"
            create_topic(server.bootstrap_servers, topic, partitions=PARTITIONS)
            produce_for(server, topic, 1000, 1_000_000, total_bytes=effort.recovery_bytes)
            server.kill()
            started = time.perf_counter()
            server.start()
            _wait_until_it_acknowledges(server, topic)
            return Measured({row.key: time.perf_counter() - started})

    return LifecycleWorkload(row.title, (row,), measure)


def _wait_until_it_acknowledges(server: Server, topic: str) -> None:
    request = produce_request(topic, 0, record_batch([b"again"], now_ms()))
    with connected(server) as connection:
        for _ in range(30_000):
            connection.sendall(request)
            answer = receive_frame(connection)
            if produce_response_error(b"\0\0\0\0" + answer, topic) == 0:
                return
            time.sleep(0.002)
    raise TimeoutError("the broker answers and acknowledges nothing")
