"""Bulks for tests of the machine."""

from __future__ import annotations

from typing import Any, TypeAlias

from semel.client.arrow.bulk import ArrowBulk, rows_of_lists
from semel.client.deliveries import BulkDelivery, settle
from tests.unit.client.machine.producer.producers import Producing

Fields: TypeAlias = tuple[bytes | None, bytes | None, int | None, tuple[tuple[str, bytes | None], ...], int]
"""Key, value, partition, headers, timestamp."""


class Future:
    """As much of a future as a delivery needs."""

    def __init__(self) -> None:
        self.result: Any = None
        self.error: BaseException | None = None

    def done(self) -> bool:
        return self.result is not None or self.error is not None

    def set_result(self, result: Any, /) -> None:
        assert not self.done(), "settled twice"
        self.result = result

    def set_exception(self, exception: BaseException, /) -> None:
        assert not self.done(), "settled twice"
        self.error = exception

    def exception(self) -> BaseException | None:
        return self.error


def bulk_of(producer: Producing, records: list[Fields], topic: str = "orders", **how: int) -> ArrowBulk:
    keys, values, partitions, headers, timestamps = map(list, zip(*records, strict=True))
    given = None if set(partitions) == {None} else partitions
    rows = rows_of_lists(values, keys, given, headers, timestamps, now_ms=0)
    return ArrowBulk(topic, rows, producer.machine._config, **how)


def send_bulk(producer: Producing, records: list[Fields], topic: str = "orders") -> Future:
    bulk = bulk_of(producer, records, topic)
    future = Future()
    producer.machine.add_bulk(bulk, BulkDelivery(future, topic, len(records)), producer.bench.now_ms)
    return future


def settle_all(producer: Producing) -> None:
    for settlement in producer.machine.take_settled():
        if settlement.bulk_count is not None:
            settle(settlement)
