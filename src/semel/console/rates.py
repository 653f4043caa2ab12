"""Write rates, computed from the high watermarks of partitions: no request of the Kafka protocol returns them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from semel.types import TopicPartition

PARTITIONS_MAX: Final = 1_000
"""With more partitions than this no rates are measured: the requests themselves would be a load on the brokers."""

_EVERY_S: Final = 2.0
_SAMPLES_MAX: Final = 150
_WINDOW_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Sample:
    at_s: float
    ends: Mapping[TopicPartition, int]


class Rates:
    """Samples of the last five minutes, taken while a page that shows rates is open."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._lock = threading.Lock()
        self._samples: deque[Sample] = deque(maxlen=_SAMPLES_MAX)

    def sample(self, ask: Callable[[], Mapping[TopicPartition, int]]) -> None:
        """Take a sample, unless the last one is less than ``_EVERY_S`` old."""
        with self._lock:
            if not self._samples or self._now_s() - self._samples[-1].at_s >= _EVERY_S:
                self._samples.append(Sample(self._now_s(), ask()))

    def series(self) -> list[float]:
        """Return the offsets per second between each sample and the next, the oldest first."""
        samples = list(self._samples)
        return [_rate(earlier, later, None) for earlier, later in pairwise(samples)]

    def now(self, topic: str | None = None) -> float | None:
        """Return the offsets per second in the last ``_WINDOW_S`` seconds, of all topics or of one.

        ``None`` until there are two samples.
        """
        samples = list(self._samples)
        if len(samples) < 2:
            return None
        last = samples[-1]
        first = next(sample for sample in samples if last.at_s - sample.at_s <= _WINDOW_S)
        if first is last:
            first = samples[-2]
        return _rate(first, last, topic)


def _rate(earlier: Sample, later: Sample, topic: str | None) -> float:
    # A partition that is missing in one sample was created or deleted; one whose end is lower was deleted and created
    # again.
    written = sum(
        max(end - earlier.ends[partition], 0)
        for partition, end in later.ends.items()
        if partition in earlier.ends and (topic is None or partition.topic == topic)
    )
    return written / max(later.at_s - earlier.at_s, 0.001)
