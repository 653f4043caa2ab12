"""Sends records steadily to every partition of a topic, so that the lag of a consumer that stops reading grows."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from confluent_kafka import KafkaError, Message, Producer

from tools.patience import PATIENCE_S

PAUSE_S: Final = 0.05


class Feeder:
    """Sends records from a thread of its own, in order, until ``finish``. Record n of a partition has offset n.

    While ``is_enough`` returns true it sends nothing, so that the lag of readers is limited: on a machine that is too
    slow for the rate they would never catch up.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        *,
        partitions: int,
        pause_s: float = PAUSE_S,
        is_enough: Callable[[], bool] = lambda: False,
    ) -> None:
        self.values: list[list[bytes]] = [[] for _ in range(partitions)]
        self._topic = topic
        self._pause_s = pause_s
        self._is_enough = is_enough
        self._acknowledged = [0] * partitions
        self._failed: list[KafkaError] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._send_until_stopped, name="feeder", daemon=True)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )

    def start(self) -> None:
        self._thread.start()

    @property
    def is_finished(self) -> bool:
        return self._stopping.is_set()

    def ends(self) -> list[int]:
        """Return how many records of each partition are acknowledged."""
        assert not self._failed, f"{self._topic} could not be fed: {self._failed[0]}"
        return list(self._acknowledged)

    def stop(self) -> None:
        """Stop sending."""
        self._stopping.set()
        self._thread.join()

    def finish(self, timeout_s: float = PATIENCE_S) -> list[int]:
        """Stop sending, wait until everything is acknowledged, and return the end offset of each partition."""
        self.stop()
        assert self._producer.flush(timeout_s) == 0, f"{self._topic} was not fed within {timeout_s:.0f} s"
        return self.ends()

    def _send_until_stopped(self) -> None:
        number = 0
        while not self._stopping.is_set():
            for partition, values in () if self._is_enough() else enumerate(self.values):
                value = f"record {number}".encode()
                values.append(value)
                self._produce(value, partition)
                number += 1
            deadline = time.monotonic() + self._pause_s
            while (left := deadline - time.monotonic()) > 0:
                self._producer.poll(left)

    def _produce(self, value: bytes, partition: int) -> None:
        while True:
            try:
                self._producer.produce(self._topic, value, partition=partition, on_delivery=self._answered(partition))
            except BufferError:  # The broker is down, or slow: wait until something is acknowledged.
                self._producer.poll(PAUSE_S)
            else:
                return

    def _answered(self, partition: int) -> Callable[[KafkaError | None, Message], None]:
        def answered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                self._acknowledged[partition] += 1
            else:
                self._failed.append(error)

        return answered
