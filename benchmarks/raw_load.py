"""A load generator that speaks the protocol itself, for measuring the broker and not a client.

Requests are built once and their answers have a known length, so what is left per request is a share of one ``send``
and one ``recv``. Every answer's error code is looked at. One record per request, acks=all, without a producer id:
the least a broker can be asked to do, as often as it can.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from dataclasses import dataclass

from benchmarks.measuring import Effort, Measured, Row, Workload
from benchmarks.processors import Watch
from benchmarks.topics import end_offsets, fresh_topic
from tools.frames import (
    fetch_request,
    now_ms,
    produce_request,
    produce_response_error,
    produce_response_size,
    receive_frame,
    record_batch,
)
from tools.ports import HOST
from tools.server import Server

RECORD_BYTES = 100


def one_record_workload(connections: int, pipelined: int, row: Row) -> Workload:
    def measure(server: Server, effort: Effort) -> Measured:
        with fresh_topic(server, connections) as topic:
            watch = Watch(server)
            answered, elapsed_s = request_for(server, topic, connections, pipelined, effort.seconds)
            usage = watch.usage()
            stored = sum(end_offsets(server, topic, connections))
        assert stored == answered, f"{answered} requests were answered and {stored} records are stored"
        return Measured({row.key: answered / elapsed_s}, usage)

    return Workload(row.title, (row,), measure)


def fetch_workload(row: Row, *, batch_records: int, record_bytes: int) -> Workload:
    """Consuming without a client: one connection that reads a partition from its start, over and over."""

    def measure(server: Server, effort: Effort) -> Measured:
        with fresh_topic(server, 1) as topic:
            _fill(server, topic, record_batch([bytes(record_bytes)] * batch_records, now_ms()), batches=256)
            watch = Watch(server)
            fetched_bytes, elapsed_s = fetch_for(server, topic, effort.seconds)
            usage = watch.usage()
        return Measured({row.key: fetched_bytes / elapsed_s / 1e6}, usage)

    return Workload(row.title, (row,), measure)


@dataclass(slots=True)
class _Connection:
    socket: socket.socket
    request: bytes
    unanswered: int = 0
    received: int = 0


def request_for(server: Server, topic: str, connections: int, pipelined: int, seconds: float) -> tuple[int, float]:
    """Keep ``pipelined`` requests under way on each connection for so long; requests answered, and seconds taken."""
    batch = record_batch([bytes(RECORD_BYTES)], now_ms())
    lines = [
        _Connection(connected(server), produce_request(topic, partition, batch)) for partition in range(connections)
    ]
    poll = select.epoll()
    by_number = {line.socket.fileno(): line for line in lines}
    for number in by_number:
        poll.register(number, select.EPOLLIN)
    answered = 0
    started = time.perf_counter()
    for line in lines:
        line.socket.sendall(line.request * pipelined)
        line.unanswered = pipelined
    deadline, open_requests = started + seconds, pipelined * connections
    buffer = memoryview(bytearray(256 * 1024))
    size = produce_response_size(topic)
    while open_requests:
        running = time.perf_counter() < deadline
        for number, _ in poll.poll(10):
            line = by_number[number]
            done = _answers(line, buffer, size, topic)
            answered += done
            if running and done:
                line.socket.sendall(line.request * done if done > 1 else line.request)
            else:
                line.unanswered -= done
                open_requests -= done
    elapsed_s = time.perf_counter() - started
    for line in lines:
        line.socket.close()
    return answered, elapsed_s


def _answers(line: _Connection, buffer: memoryview, size: int, topic: str) -> int:
    """How many whole answers have arrived; a refusal or a closed connection ends the benchmark."""
    got = line.socket.recv_into(buffer)
    assert got, "the broker closed the connection"
    before, line.received = line.received, line.received + got
    if before % size == 0:
        # Answers that arrive cut in two are not looked into; the end offsets tell on them.
        for at in range(0, got - size + 1, size):
            error = produce_response_error(buffer[at : at + size], topic)
            assert error == 0, f"the broker answered with error code {error}"
    return line.received // size - before // size


def fetch_for(server: Server, topic: str, seconds: float) -> tuple[int, float]:
    fetched_bytes, offset = 0, 0
    with connected(server) as connection:
        end = end_offsets(server, topic, 1)[0]
        started = time.perf_counter()
        while time.perf_counter() - started < seconds:
            connection.sendall(fetch_request(topic, 0, offset, max_bytes=8 * 1024 * 1024))
            records = _records_of(receive_frame(connection), topic)
            assert len(records) > 0, f"nothing at offset {offset}, although the partition ends at {end}"
            fetched_bytes += len(records)
            offset = _next_offset(records) % end
        return fetched_bytes, time.perf_counter() - started


def connected(server: Server) -> socket.socket:
    connection = socket.create_connection((HOST, server.launch.port), timeout=30)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def _fill(server: Server, topic: str, batch: bytes, batches: int) -> None:
    request = produce_request(topic, 0, batch)
    with connected(server) as connection:
        for _ in range(batches):
            connection.sendall(request)
            receive_frame(connection)


def _records_of(answer: bytes, topic: str) -> memoryview:
    """The record bytes in a Fetch v11 answer for one partition."""
    at = 4 + 4 + 2 + 4 + 4 + 2 + len(topic.encode()) + 4
    _, error, _, _, _, aborted, _, size = struct.unpack_from(">ihqqqiii", answer, at)
    assert error == 0, f"Fetch was answered with error code {error}"
    assert aborted <= 0, "there are no transactions in this topic"
    return memoryview(answer)[at + struct.calcsize(">ihqqqiii") :][:size]


def _next_offset(records: memoryview) -> int:
    """One past the last record of the last whole batch."""
    at, offset = 0, 0
    while at + 61 <= len(records):
        base_offset, length = struct.unpack_from(">qi", records, at)
        if at + 12 + length > len(records):
            break
        offset = base_offset + struct.unpack_from(">i", records, at + 23)[0] + 1
        at += 12 + length
    return offset
