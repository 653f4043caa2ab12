"""A producer id that is nearly used up: its epoch is moved on, tens of thousands of times, until a few are left.

A pipeline gets there after some sixteen thousand batches. The next take-over is given the last epoch, and the first
transaction that it ends goes on under another producer id.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Final

from tools.frames import framed, request_header
from tools.server import HOST

INIT_PRODUCER_ID: Final = 22

_LAST_GIVEN: Final = 2**15 - 2
_IN_FLIGHT: Final = 100
_DEADLINE_S: Final = 300.0
_TIMEOUT_MS: Final = 60_000
_ANSWER = struct.Struct(">iiihqh")
"""Its size, the correlation id, the throttle time, the error, the producer id, the epoch."""


def use_up_epochs(port: int, transactional_id: str) -> int:
    """Take over again and again until one epoch is left; returns the producer id. Whoever used it is fenced."""
    deadline = time.monotonic() + _DEADLINE_S
    name = transactional_id.encode()
    request = framed(request_header(INIT_PRODUCER_ID, 1, 0) + struct.pack(">h", len(name)) + name + _timeout())
    producer_id, epoch = -1, 0
    with socket.create_connection((HOST, port)) as broker, broker.makefile("rb") as answers:
        while epoch < _LAST_GIVEN - 1:
            assert time.monotonic() < deadline, f"epoch {epoch} of {transactional_id!r} after {_DEADLINE_S:.0f} s"
            count = min(_IN_FLIGHT, _LAST_GIVEN - 1 - epoch) if producer_id >= 0 else 1
            broker.sendall(request * count)
            for _ in range(count):
                *_, error, found, at = _ANSWER.unpack(answers.read(_ANSWER.size))
                if not error:  # Else what is open is being aborted; it is asked again.
                    producer_id, epoch = found, at
    return producer_id


def _timeout() -> bytes:
    return struct.pack(">i", _TIMEOUT_MS)
