"""Deliveries: the futures of records that were sent, and how they are settled."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections.abc import Iterable
from functools import partial
from itertools import repeat
from typing import Any, Final, Protocol

from semel.client.machine.producer.batch import Acknowledged, Settlement
from semel.client.values import BulkMetadata, RecordMetadata, WrittenRange
from semel.errors import KafkaError

log = logging.getLogger(__name__)

_CANCELLED: Final = (asyncio.InvalidStateError, concurrent.futures.InvalidStateError)
# Makes a ``RecordMetadata`` of a tuple. A named tuple's own constructor is a Python function, and this is called for
# every record.
_metadata: Final = partial(tuple.__new__, RecordMetadata)


class Delivery(Protocol):
    """The methods that asyncio's futures and those of threads have in common."""

    def done(self) -> bool: ...

    def set_result(self, result: Any, /) -> None: ...

    def set_exception(self, exception: BaseException, /) -> None: ...


def settle(settlement: Settlement) -> None:
    """Settle the futures of these records. A cancelled future is left alone; its record was sent anyway."""
    topic, partition, deliveries, timestamps, outcome, bulk_count = settlement
    if isinstance(outcome, Acknowledged):
        if bulk_count is not None:
            for bulk in deliveries:
                bulk.written(settlement, outcome, bulk_count)
            return
        base_offset, append_time_ms = outcome
        count = len(deliveries)
        offsets = repeat(None, count) if base_offset is None else range(base_offset, base_offset + count)
        times_ms = timestamps if append_time_ms is None else repeat(append_time_ms)
        # The deliveries are taken out one by one: a future without a reference is freed before the next one is settled.
        # Otherwise thousands of them would exist together, and the garbage collector would look at each.
        deliveries.reverse()
        next_delivery = deliveries.pop
        for written in map(_metadata, zip(repeat(topic), repeat(partition), offsets, times_ms, strict=False)):
            delivery = next_delivery()
            try:
                delivery.set_result(written)
            except _CANCELLED:
                continue
            except BaseException:
                deliveries.append(delivery)  # It is not settled yet.
                raise
        return
    for delivery in deliveries:
        if bulk_count is not None:
            delivery.failed(outcome, bulk_count)
        else:
            fail(delivery, outcome)
    log.warning("%s", outcome)


def fail(delivery: Delivery, error: Exception) -> None:
    if not delivery.done():
        delivery.set_exception(error)


def give_up(deliveries: Iterable[Any], error: Exception) -> None:
    """Fail all of these, whatever they have received before. A delivery of many records fails as a whole."""
    for delivery in {id(one): one for one in deliveries}.values():
        fail(delivery.whole if isinstance(delivery, BulkDelivery | BatchDelivery) else delivery, error)


class BulkDelivery:
    """One future for many records: settled when all of them are, with an error if one has failed."""

    def __init__(self, delivery: Delivery, topic: str, record_count: int) -> None:
        self.whole = delivery
        self._topic = topic
        self._record_count = self._left = record_count
        self._partitions: dict[int, WrittenRange] = {}
        self._written = 0
        self._error: Exception | None = None

    def written(self, settlement: Settlement, outcome: Acknowledged, record_count: int) -> None:
        assert settlement.partition is not None
        base = outcome.base_offset
        last = None if base is None else base + record_count - 1
        before = self._partitions.get(settlement.partition)
        first = base if before is None else before.first_offset
        total = record_count + (0 if before is None else before.record_count)
        self._partitions[settlement.partition] = WrittenRange(first, last, total)
        self._written += record_count
        self._settled(record_count)

    def failed(self, error: Exception, record_count: int) -> None:
        self._error = self._error or error
        self._settled(record_count)

    def _settled(self, record_count: int) -> None:
        self._left -= record_count
        if self._left:
            return
        if self._error is not None:
            fail(self.whole, self._with_count(self._error))
        elif not self.whole.done():
            partitions = dict(sorted(self._partitions.items()))
            self.whole.set_result(BulkMetadata(self._topic, self._record_count, partitions))

    def _with_count(self, error: Exception) -> Exception:
        if not isinstance(error, KafkaError):
            return error
        text = f"{error.message}. Of {self._record_count} records that were sent together {self._written} were written"
        told = type(error)(error.code, text)
        told.__cause__ = error
        return told


class BatchDelivery:
    """One future for a batch that was encoded elsewhere: the metadata of its first record, once all are settled."""

    def __init__(self, delivery: Delivery, record_count: int) -> None:
        self.whole = delivery
        self._left = record_count
        self._first: RecordMetadata | None = None

    def written(self, settlement: Settlement, outcome: Acknowledged, record_count: int) -> None:
        assert settlement.partition is not None
        appended_ms = outcome.log_append_time_ms
        written_ms = settlement.timestamps[0] if appended_ms is None else appended_ms
        self._first = self._first or RecordMetadata(
            settlement.topic, settlement.partition, outcome.base_offset, written_ms
        )
        self._left -= record_count
        if not self._left and not self.whole.done():
            self.whole.set_result(self._first)

    def failed(self, error: Exception, record_count: int) -> None:
        fail(self.whole, error)
