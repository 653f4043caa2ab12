"""Encodes a few requests of the Kafka protocol by hand, to probe a broker and to load it without a client library.

A frame is a four-byte length and that many bytes. Every request begins with (api key, api version, correlation id,
client id). The versions used here are old ones without tagged fields, which every broker from 2.1 to 4.x supports. The
bytes of a request are constant, so that a load generator encodes it only once.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Final

import crc32c

PRODUCE: Final = 0
FETCH: Final = 1
METADATA: Final = 3
FIND_COORDINATOR: Final = 10
DESCRIBE_CLUSTER: Final = 60

_LENGTH = struct.Struct(">i")


def framed(payload: bytes) -> bytes:
    return _LENGTH.pack(len(payload)) + payload


def request_header(api_key: int, api_version: int, correlation_id: int, client_id: str = "semel-tools") -> bytes:
    return struct.pack(">hhi", api_key, api_version, correlation_id) + _string(client_id)


def metadata_request(correlation_id: int = 0) -> bytes:
    """Return a Metadata v1 request for no topic, which is answered with the list of brokers."""
    return framed(request_header(METADATA, 1, correlation_id) + struct.pack(">i", 0))


def produce_request(topic: str, partition: int, batch: bytes, *, acks: int = -1, correlation_id: int = 0) -> bytes:
    """Return a Produce v7 request with one batch. Its response always has ``produce_response_size(topic)`` bytes."""
    return _produce_request(topic, [partition], batch, acks, correlation_id)


def produce_request_to_all(topic: str, partitions: int, batch: bytes, *, acks: int = -1) -> bytes:
    """Return a Produce v7 request with the same batch for every partition of a topic."""
    return _produce_request(topic, list(range(partitions)), batch, acks, 0)


def produce_response_size(topic: str) -> int:
    """Return the length of a framed Produce v7 response for one partition, the same for success and error."""
    partition = struct.calcsize(">ihqqq")
    return 4 + 4 + 4 + 2 + len(topic.encode()) + 4 + partition + 4


def produce_response_error(frame: bytes | memoryview, topic: str) -> int:
    """Return the error code in a framed Produce v7 response for one partition."""
    at = 4 + 4 + 4 + 2 + len(topic.encode()) + 4 + 4
    code: int = struct.unpack_from(">h", frame, at)[0]
    return code


def fetch_request(topic: str, partition: int, offset: int, *, max_bytes: int, correlation_id: int = 0) -> bytes:
    """Return a Fetch v11 request for one partition, without a fetch session, which waits for at most half a second."""
    body = struct.pack(">iiiibii", -1, 500, 1, max_bytes, 0, 0, -1)
    body += struct.pack(">i", 1) + _string(topic)
    body += struct.pack(">iiiqqi", 1, partition, -1, offset, -1, max_bytes)
    body += struct.pack(">i", 0) + _string("")
    return framed(request_header(FETCH, 11, correlation_id) + body)


def record_batch(values: list[bytes], timestamp_ms: int) -> bytes:
    """Return a batch (v2) of records without keys, headers and producer id: the minimum that a broker accepts."""
    records = b"".join(_record(value, delta) for delta, value in enumerate(values))
    last = len(values) - 1
    checked = struct.pack(">hiqqqhii", 0, last, timestamp_ms, timestamp_ms, -1, -1, -1, len(values)) + records
    return struct.pack(">qiibI", 0, 9 + len(checked), -1, 2, crc32c.crc32c(checked)) + checked


def receive_frame(connection: socket.socket) -> bytes:
    """Receive one frame from a blocking socket and return its payload.

    Raises ConnectionError if the other side closes the connection first.
    """
    (length,) = _LENGTH.unpack(_receive(connection, 4))
    return _receive(connection, length)


def brokers_answering(host: str, port: int, timeout_s: float) -> int:
    """Return how many brokers the broker at this address lists; 0 if it does not answer or is in no cluster yet."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.sendall(metadata_request())
            (count,) = struct.unpack_from(">i", receive_frame(connection), 4)
            return int(count)
    except (OSError, struct.error):
        return 0


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def _produce_request(topic: str, partitions: list[int], batch: bytes, acks: int, correlation_id: int) -> bytes:
    body = struct.pack(">hhii", -1, acks, 30_000, 1) + _string(topic) + struct.pack(">i", len(partitions))
    body += b"".join(struct.pack(">ii", partition, len(batch)) + batch for partition in partitions)
    return framed(request_header(PRODUCE, 7, correlation_id) + body)


def _receive(connection: socket.socket, length: int) -> bytes:
    parts = bytearray()
    while len(parts) < length:
        part = connection.recv(length - len(parts))
        if not part:
            raise ConnectionError(f"closed after {len(parts)} of {length} bytes")
        parts += part
    return bytes(parts)


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">h", len(raw)) + raw


def _record(value: bytes, offset_delta: int) -> bytes:
    body = b"\x00" + varint(0) + varint(offset_delta) + varint(-1) + varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


def varint(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)
