"""How long one record takes to be acknowledged when the broker has little else to do: a hundred a second."""

from __future__ import annotations

import time

from benchmarks.measuring import Effort, Measured, Row, Workload
from benchmarks.raw_load import RECORD_BYTES, connected
from benchmarks.topics import fresh_topic
from tools.frames import now_ms, produce_request, receive_frame, record_batch
from tools.server import Server

_INTERVAL_S = 0.01


def latency_workload(p50: Row, p99: Row) -> Workload:
    def measure(server: Server, effort: Effort) -> Measured:
        with fresh_topic(server, 1) as topic:
            taken_ms = sorted(acknowledgement_times_ms(server, topic, effort.latency_seconds))
        return Measured({p50.key: quantile(taken_ms, 0.5), p99.key: quantile(taken_ms, 0.99)})

    return Workload("produce latency at 100 records/s", (p50, p99), measure)


def acknowledgement_times_ms(server: Server, topic: str, seconds: float) -> list[float]:
    request = produce_request(topic, 0, record_batch([bytes(RECORD_BYTES)], now_ms()))
    taken_ms = []
    with connected(server) as connection:
        next_at = time.perf_counter()
        for _ in range(int(seconds / _INTERVAL_S)):
            next_at += _INTERVAL_S
            # A schedule, not a pause: one slow answer must not hide how long the next would have waited.
            time.sleep(max(0.0, next_at - time.perf_counter()))
            asked = time.perf_counter()
            connection.sendall(request)
            receive_frame(connection)
            taken_ms.append((time.perf_counter() - asked) * 1000)
    return taken_ms


def quantile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
