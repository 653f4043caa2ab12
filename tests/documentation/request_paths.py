"""The calls that a request makes in the code, recorded: client and broker in one thread, in virtual time."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import semel
from semel.testing.simulation import Simulation, run
from tests.documentation.code_references import Reference
from tests.simulation.test_client_faults import ORDERS, TOPIC, Bench

FIRST_BATCH, END_TXN, FETCH, HEARTBEAT = "first batch", "EndTxn", "read_committed Fetch", "KIP-848 heartbeat"

_ROOT = f"{Path(semel.__file__).parent}/"


def recorded_calls() -> dict[str, list[Reference]]:
    """Every function of Semel that is called for each of these requests, in order."""
    calls: dict[str, list[Reference]] = {}

    async def scenario(simulation: Simulation) -> None:
        bench = Bench(simulation, transaction_version="2")
        await bench.start()
        producer = bench.producer(transactional_id="transfers")
        reader = bench.consumer("consumer", group_id=None)
        reader.assign(ORDERS[:1])
        await producer.init()

        async def one_transaction() -> None:
            async with producer.transaction():
                await producer.send(TOPIC, b"two", partition=0)

        await one_transaction()
        await reader.poll(1000)

        with _recording(calls, FIRST_BATCH):
            producer.begin()
            await producer.send(TOPIC, b"one", partition=0)
            await asyncio.sleep(1.0)
        with _recording(calls, END_TXN):
            await producer.commit()
            await asyncio.sleep(1.0)
        await reader.poll(1000)
        with _recording(calls, FETCH):
            reading = asyncio.create_task(reader.poll(10_000))
            await asyncio.sleep(0.1)
            await one_transaction()
            assert [record.value for record in await reading] == [b"two"]
        member = bench.consumer("consumer")
        member.subscribe([TOPIC])
        with _recording(calls, HEARTBEAT):
            await member.poll(5000)
        for client in (producer, reader, member):
            await client.close()

    run(scenario)
    return calls


@contextmanager
def _recording(calls: dict[str, list[Reference]], request: str) -> Iterator[None]:
    recorded = calls[request] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_ROOT):
            recorded.append(Reference(code.co_filename.removeprefix(_ROOT), code.co_qualname))

    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
