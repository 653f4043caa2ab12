"""Telling those who sent records what became of them."""

from __future__ import annotations

import logging
from itertools import count
from typing import Protocol

from semel.client.machine.batch import Acknowledged, Settlement
from semel.client.values import RecordMetadata

log = logging.getLogger(__name__)


class Delivery(Protocol):
    """What asyncio's futures and those of threads have in common."""

    def done(self) -> bool: ...

    def set_result(self, result: RecordMetadata, /) -> None: ...

    def set_exception(self, exception: BaseException, /) -> None: ...

    def exception(self) -> BaseException | None: ...


def settle(settlement: Settlement) -> None:
    """Give every delivery its result. One that its owner has cancelled is left alone; its record was sent anyway."""
    topic, partition, deliveries, timestamps, outcome = settlement
    if isinstance(outcome, Acknowledged):
        new = tuple.__new__
        base_offset, append_time_ms = outcome
        offsets = (None for _ in deliveries) if base_offset is None else count(base_offset)
        for delivery, timestamp, offset in zip(deliveries, timestamps, offsets, strict=False):
            if not delivery.done():
                written_ms = timestamp if append_time_ms is None else append_time_ms
                delivery.set_result(new(RecordMetadata, (topic, partition, offset, written_ms)))
        return
    for delivery in deliveries:
        if not delivery.done():
            delivery.set_exception(outcome)
            # Seen: the line below is said once for all of them, and not once more for each that nobody awaits.
            delivery.exception()
    log.warning("%s", outcome)
