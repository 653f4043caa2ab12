"""A process in which large frames arrive in part and their connections are closed; prints how much its memory grew.

At no time do more than ``ARRIVING_BYTES_MAX`` of them arrive. Run by ``test_receive_buffer.py``.
"""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random

from semel.broker.network.receive_buffer import SCRATCH_BYTES, ReceiveBuffer
from semel.broker.network.request_memory import RequestMemory
from semel.memory import keep_freed_memory

ARRIVING_BYTES_MAX = 24 * 2**20
FRAME_BYTES = 90 * 2**20


def main() -> None:
    assert keep_freed_memory(16 * 2**20)
    chance, memory = Random(1), RequestMemory(ARRIVING_BYTES_MAX)
    scratch = memoryview(bytearray(SCRATCH_BYTES))
    before_bytes = peak_bytes()
    open_boxes: list[ReceiveBuffer] = []
    survivors: list[bytes] = []  # Small objects between the large ones, as a broker has them.
    for _ in range(100):
        box = ReceiveBuffer(scratch, FRAME_BYTES, memory)
        open_boxes.append(box)
        buffer = box.buffer()
        buffer[:4] = struct.pack(">i", FRAME_BYTES)
        rest = chance.randrange(2**20, 9 * 2**20)
        while rest > 0 and not box.lacks_memory:
            size = len(buffer)
            buffer[::4096] = bytes(len(range(0, size, 4096)))
            if not box.is_receiving_large:
                buffer[:4] = struct.pack(">i", FRAME_BYTES)
            box.received(size)
            assert box.next_frame() is None
            box.settle()
            survivors.append(bytes(5000))
            rest -= size
            if not box.lacks_memory:
                buffer = box.buffer()
        while memory.used_bytes > ARRIVING_BYTES_MAX // 2:
            open_boxes.pop(chance.randrange(len(open_boxes))).close()
    print(peak_bytes() - before_bytes)


def peak_bytes() -> int:
    """Of this program; what ``getrusage`` tells begins with the memory of the process that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))


if __name__ == "__main__":
    main()
