"""The orders of the demo, which are its input, and a reader of what the jobs have consumed and written."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from semel.blocking import Producer
from semel.client.config.consumer import IsolationLevel
from semel.spark.cluster import Cluster
from semel.spark.source.reading import read_split
from semel.spark.source.splits import Split
from semel.types import TopicPartition

CUSTOMERS = ("Ada", "Blaise", "Carl", "Dorothy", "Emmy")
GROUP = "totals-job"

_FIRST_MS = 1_750_000_000_000
_BETWEEN_MS = 10_000
_PER_SECOND = 800
_SENT_AT_ONCE = 40
_DAY_MS = 86_400_000

Totals = tuple[Counter[str], Counter[str]]
"""By customer: the number of orders, and the sum of their amounts."""


@dataclass(frozen=True, slots=True)
class Orders:
    """Random orders, whose timestamps are ten seconds apart, so that they cover several hours to sum up."""

    placed: tuple[tuple[str, int], ...]

    @classmethod
    def drawn(cls, count: int) -> Orders:
        chance = random.Random(7)
        return cls(tuple((chance.choice(CUSTOMERS), chance.randint(100, 99_999)) for _ in range(count)))

    def __len__(self) -> int:
        """The number of records: all orders, and a last record whose timestamp is a day later, which closes the hours
        of all others."""
        return len(self.placed) + 1

    def summed_up(self) -> Totals:
        counts, spent = Counter[str](), Counter[str]()
        for customer, amount in self.placed:
            counts[customer] += 1
            spent[customer] += amount
        return counts, spent

    def send_in_background(self, servers: str) -> None:
        threading.Thread(target=self._send, args=(servers,), name="orders", daemon=True).start()

    def _send(self, servers: str) -> None:
        with Producer(bootstrap_servers=servers) as producer:
            time_ms = _FIRST_MS
            for number, (customer, amount) in enumerate(self.placed):
                time_ms += _BETWEEN_MS
                value = json.dumps({"amount": amount}).encode()
                producer.send("orders", value, customer.encode(), timestamp=time_ms)
                if number % _SENT_AT_ONCE == 0:
                    time.sleep(_SENT_AT_ONCE / _PER_SECOND)
            producer.flush()
            producer.send("orders", b'{"amount": 0}', b"nobody", timestamp=time_ms + _DAY_MS).result()


class Reader:
    """Reads the offsets of consumed orders and the totals that the jobs have written."""

    def __init__(self, servers: str, partitions: int, topic: str) -> None:
        self._stable = Cluster(bootstrap_servers=servers)
        self._all = Cluster(bootstrap_servers=servers, isolation_level=IsolationLevel.READ_UNCOMMITTED)
        self._orders = [TopicPartition("orders", index) for index in range(partitions)]
        self._totals = [TopicPartition(topic, index) for index in range(partitions)]

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *exception: object) -> None:
        self._stable.close()
        self._all.close()

    def consumed(self) -> int:
        return sum(at.offset for at in self._stable.committed(GROUP, self._orders).values())

    def totals(self) -> list[tuple[str, dict[str, Any]]]:
        return [
            (row["key"].decode(), json.loads(row["value"]))
            for place, end in self._stable.end_offsets(self._totals).items()
            for rows in read_split(Split(place, 0, end), self._stable, include_headers=False, fail_on_data_loss=True)
            for row in rows.to_pylist()
        ]

    def wait_until_written(self, *, timeout_s: float) -> None:
        """Wait until a batch has written totals, whether or not they are committed."""
        before, deadline = self._all.end_offsets(self._totals), time.monotonic() + timeout_s
        while self._all.end_offsets(self._totals) == before and time.monotonic() < deadline:
            pass

    def wait_until_open(self, *, timeout_s: float) -> bool:
        """Wait until a transaction has written totals and is still open. Returns whether there was one in time."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self._stable.end_offsets(self._totals) != self._all.end_offsets(self._totals):
                return True
        return False


def sum_up(totals: list[tuple[str, dict[str, Any]]]) -> Totals:
    counts, spent = Counter[str](), Counter[str]()
    for customer, total in totals:
        counts[customer] += total["orders"]
        spent[customer] += total["spent"]
    return counts, spent
