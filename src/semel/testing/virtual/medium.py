"""The links between the hosts of a virtual network: latency, loss of connections, and partitions.

A link is a pair of host names, without direction. Its qualities decide what happens to the connections over it; a
partition, or the pause of a host, holds everything back until it is over. A partition may be of one direction only.
"""

from __future__ import annotations

import asyncio
import contextvars
from dataclasses import dataclass
from random import Random

from semel.testing.virtual.latency import Latency, uniform_ms
from semel.testing.virtual.trace import Trace


@dataclass(frozen=True, slots=True)
class Link:
    """The qualities of a link. Probabilities are per write: TCP loses no single message, it loses connections."""

    latency: Latency = uniform_ms(0.05, 1.0)  # noqa: RUF009 - an immutable value
    reset_probability: float = 0.0
    """The connection dies soon, and both ends are told."""
    stall_probability: float = 0.0
    """From here on nothing arrives; the sender is told only when it gives up."""
    refuses: bool = False
    """New connections are refused."""


class Medium:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, random: Random, *, link: Link, give_up_ms: float, trace: Trace | None
    ) -> None:
        self.loop = loop
        self.random = random
        self.give_up_ms = give_up_ms
        # The network belongs to no process: what is on its way must not die or pause with the one who sent it.
        self.context = contextvars.Context()
        self.default_link = link
        self.links: dict[frozenset[str], Link] = {}
        self.partitions: set[frozenset[str]] = set()
        self.one_way: set[tuple[str, str]] = set()
        self.paused: set[str] = set()
        self._trace = trace

    def link(self, one: str, other: str) -> Link:
        return self.links.get(frozenset((one, other)), self.default_link) if self.links else self.default_link

    def delay_s(self, one: str, other: str) -> float:
        return self.link(one, other).latency(self.random) / 1000

    def blocked(self, one: str, other: str) -> bool:
        """Whether nothing gets from the one to the other now."""
        if self.paused and (one in self.paused or other in self.paused):
            return True
        if self.one_way and (one, other) in self.one_way:
            return True
        return bool(self.partitions) and frozenset((one, other)) in self.partitions

    def record(self, text: str) -> None:
        if self._trace is not None:
            self._trace.record(text)
