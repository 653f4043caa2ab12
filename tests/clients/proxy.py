"""A proxy that understands Kafka's frames, for losing answers after the broker has acted on the request.

It stands before one broker in a thread of its own. Clients are kept from walking around it: in the answers that carry
the broker's address, the address is replaced by the proxy's, which has the same length, so nothing needs to be decoded.

What happens to an answer is decided by ``verdict(api_key)``, on the proxy's thread, when the whole answer has arrived
from the broker: PASS it on, CUT the client's connection instead, or STALL: from this answer on the connection is silent
and stays open, as when a network path dies. One answer is never lost from the middle of a connection: TCP cannot do it.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from collections import Counter
from collections.abc import Callable
from enum import Enum, auto

from tools.frames import DESCRIBE_CLUSTER, FIND_COORDINATOR, METADATA, PRODUCE
from tools.patience import PATIENCE_S
from tools.ports import HOST

_CARRY_AN_ADDRESS = frozenset({METADATA, FIND_COORDINATOR, DESCRIBE_CLUSTER})


class Verdict(Enum):
    PASS = auto()
    CUT = auto()
    STALL = auto()


class Proxy:
    """``with Proxy(port, verdict) as proxy:`` and connect clients to ``proxy.bootstrap_servers``."""

    def __init__(self, broker_port: int, verdict: Callable[[int], Verdict]) -> None:
        self.verdicts: Counter[tuple[int, Verdict]] = Counter()
        self._broker_port = broker_port
        self._verdict = verdict
        self._port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._directions: set[asyncio.Task[None]] = set()

    @property
    def bootstrap_servers(self) -> str:
        return f"{HOST}:{self._port}"

    def __enter__(self) -> Proxy:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(PATIENCE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accepted, HOST, 0)
        self._port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        self._server.close()
        for direction in self._directions:
            direction.cancel()
        while self._directions:
            await asyncio.sleep(0)

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            broker_reader, broker_writer = await asyncio.open_connection(HOST, self._broker_port)
        except OSError:
            writer.close()  # As a broker that is down would refuse.
            return
        asked: dict[int, int] = {}
        both = {
            asyncio.create_task(self._requests(reader, broker_writer, asked)),
            asyncio.create_task(self._answers(broker_reader, writer, asked)),
        }
        self._directions |= both
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for direction in both:
            direction.cancel()
        await asyncio.wait(both)
        writer.close()
        broker_writer.close()
        self._directions -= both

    async def _requests(
        self, reader: asyncio.StreamReader, broker: asyncio.StreamWriter, asked: dict[int, int]
    ) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                frame = await _frame(reader)
                api_key, _, correlation_id = struct.unpack_from(">hhi", frame, 4)
                asked[correlation_id] = api_key
                broker.write(frame)
                await broker.drain()

    async def _answers(self, broker: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: dict[int, int]) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                frame = await _frame(broker)
                (correlation_id,) = struct.unpack_from(">i", frame, 4)
                api_key = asked.pop(correlation_id)
                verdict = self._verdict(api_key)
                self.verdicts[api_key, verdict] += 1
                if verdict is Verdict.CUT:
                    return
                if verdict is Verdict.STALL:
                    await asyncio.Event().wait()
                writer.write(self._with_own_address(frame) if api_key in _CARRY_AN_ADDRESS else frame)
                await writer.drain()

    def _with_own_address(self, frame: bytes) -> bytes:
        theirs, ours = (HOST.encode() + struct.pack(">i", port) for port in (self._broker_port, self._port))
        return frame.replace(theirs, ours)


def losing_produce_answers(how: Verdict, when: Callable[[int], bool]) -> Callable[[int], Verdict]:
    """A verdict that loses the n-th answer to Produce, counted from 1, whenever ``when(n)`` says so."""
    seen = 0

    def verdict(api_key: int) -> Verdict:
        nonlocal seen
        if api_key != PRODUCE:
            return Verdict.PASS
        seen += 1
        return how if when(seen) else Verdict.PASS

    return verdict


async def _frame(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(4)
    return head + await reader.readexactly(struct.unpack(">i", head)[0])
