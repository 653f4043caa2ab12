"""Uses up the epochs of a producer id: InitProducerId bumps its epoch tens of thousands of times, until one is left.

A pipeline gets there after about sixteen thousand batches. The next InitProducerId returns the last epoch, and after
the first transaction that ends with it the transactional id gets another producer id.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Final

from tools.frames import framed, request_header
from tools.ports import HOST

INIT_PRODUCER_ID: Final = 22

_LAST_GIVEN: Final = 2**15 - 2
_IN_FLIGHT: Final = 100
_DEADLINE_S: Final = 300.0
_TIMEOUT_MS: Final = 60_000
_ANSWER = struct.Struct(">iiihqh")
"""A response to InitProducerId v1: size, correlation id, throttle time, error code, producer id, producer epoch."""


def use_up_epochs(port: int, transactional_id: str) -> int:
    """Repeat InitProducerId until one epoch is left. Return the producer id. A producer that used the id is fenced."""
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
                if not error:  # On an error an open transaction is being aborted; the request is repeated.
                    producer_id, epoch = found, at
    return producer_id


def _timeout() -> bytes:
    return struct.pack(">i", _TIMEOUT_MS)
