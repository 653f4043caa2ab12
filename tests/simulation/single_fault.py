"""One fault at one moment: when a certain request is under way. For tests of what a client does about it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum

from semel.testing.simulation import Simulation
from semel.testing.virtual.frames import DELIVER, DROP, RESET, Frame, Verdict
from semel.wire.apis import ApiKey
from tests.simulation.served_broker import ServedBroker

AWAY_MS = 700.0
LATE_MS = 2_500.0
"""Longer than the clients in these tests wait for an answer: they ask again, and then this one arrives."""


class Fault(StrEnum):
    REQUEST_LOST = "the request is lost"
    REQUEST_LATE = "the request is late"
    ANSWER_LOST = "the answer is lost"
    ANSWER_NEVER_COMES = "the answer never comes"
    COORDINATOR_MOVES = "the coordinator moves"
    COORDINATOR_MOVES_BEFORE_THE_ANSWER = "the coordinator moves before the answer"
    BROKER_DIES = "the broker dies"
    BROKER_LOSES_POWER_BEFORE_THE_ANSWER = "the broker loses power before the answer"


class SingleFault:
    """An interceptor that strikes when this request is seen for the ``nth`` time, and never again."""

    def __init__(
        self, simulation: Simulation, served: ServedBroker, api_key: ApiKey, fault: Fault, nth: int = 1
    ) -> None:
        self.happened = False
        self._simulation = simulation
        self._served = served
        self._api_key = api_key
        self._fault = fault
        self._left = nth
        self._awaited: tuple[int, bytes] | None = None
        """The connection and the correlation id of the request whose answer it is about."""

    def __call__(self, frame: Frame) -> Verdict:
        if not frame.to_server:
            return self._answer(frame)
        if int.from_bytes(frame.payload[:2], "big") != self._api_key:
            return DELIVER
        self._left -= 1
        if self._left:
            return DELIVER
        match self._fault:
            case Fault.REQUEST_LOST:
                return self._strikes(RESET)
            case Fault.REQUEST_LATE:
                return self._strikes(Verdict(delay_ms=LATE_MS))
            case Fault.COORDINATOR_MOVES:
                return self._strikes(DELIVER, self._move)
            case Fault.BROKER_DIES:
                return self._strikes(DELIVER, self._served.host.kill)
        self._awaited = frame.connection, frame.payload[4:8]
        return DELIVER

    def _answer(self, frame: Frame) -> Verdict:
        if self._awaited != (frame.connection, frame.payload[:4]):
            return DELIVER
        self._awaited = None
        match self._fault:
            case Fault.ANSWER_LOST:
                return self._strikes(RESET)
            case Fault.ANSWER_NEVER_COMES:
                return self._strikes(DROP)
            case Fault.COORDINATOR_MOVES_BEFORE_THE_ANSWER:
                return self._strikes(RESET, self._move)
            case _:
                return self._strikes(RESET, self._served.host.cut_power)

    def _strikes(self, verdict: Verdict, harm: Callable[[], None] | None = None) -> Verdict:
        self.happened = True
        if harm is not None:
            # Not while the frame is being looked at: it may be the sender's own process that ends.
            self._simulation.loop.call_soon(harm)
        return verdict

    def _move(self) -> None:
        for partition in range(3):
            self._served.move_coordinator(of_offsets=False, partition=partition, away_ms=AWAY_MS)
        for partition in range(2):
            self._served.move_coordinator(of_offsets=True, partition=partition, away_ms=AWAY_MS)


async def revive(served: ServedBroker) -> None:
    """Start the broker again whenever it has died."""
    while True:
        await asyncio.sleep(0.3)
        if not served.host.alive:
            served.host.disk.repair()
            served.start()
