"""Counters, gauges and histograms, and their text format for Prometheus.

Metrics are counted on the hot path, so a counter is a plain number that its owner adds to (``counter.value += 1``); the
text of the page is made only when a scrape asks for it. Everything runs on one event loop, so there are no locks.

The law: a metric's name contains its unit, a counter's name ends in ``_total``, and times on the page are in seconds,
whatever unit the broker uses inside.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, Final, TypeAlias, TypeVar

Labels: TypeAlias = Mapping[str, str]

# The bounds of the buckets: from a cached answer to a long poll; a request that waits for one disk sync falls in the
# middle.
SECONDS_BOUNDS: Final = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    5.0,
    30.0,
)


class Counter:
    """A number that only grows."""

    __slots__ = ("value",)

    kind: ClassVar[str] = "counter"

    def __init__(self) -> None:
        self.value = 0

    def samples(self, name: str, labels: Labels) -> Iterator[str]:
        yield _sample(name, labels, self.value)


class Gauge:
    """A number that is read when a scrape asks for it."""

    __slots__ = ("_read",)

    kind: ClassVar[str] = "gauge"

    def __init__(self, read: Callable[[], float]) -> None:
        self._read = read

    def samples(self, name: str, labels: Labels) -> Iterator[str]:
        yield _sample(name, labels, self._read())


class ReadCounter(Gauge):
    """A counter whose number is held elsewhere, and read when a scrape asks for it."""

    __slots__ = ()

    kind: ClassVar[str] = "counter"


class Histogram:
    """A distribution of durations in seconds: a count for each bucket of ``SECONDS_BOUNDS``, and their sum."""

    __slots__ = ("_counts", "_sum")

    kind: ClassVar[str] = "histogram"

    def __init__(self) -> None:
        self._counts = [0] * (len(SECONDS_BOUNDS) + 1)
        self._sum = 0.0

    @property
    def count(self) -> int:
        return sum(self._counts)

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(SECONDS_BOUNDS, seconds)] += 1
        self._sum += seconds

    def samples(self, name: str, labels: Labels) -> Iterator[str]:
        total = 0
        for bound, count in zip((*map(str, SECONDS_BOUNDS), "+Inf"), self._counts, strict=True):
            total += count
            yield _sample(f"{name}_bucket", {**labels, "le": bound}, total)
        yield _sample(f"{name}_sum", labels, self._sum)
        yield _sample(f"{name}_count", labels, total)


Metric: TypeAlias = Counter | Gauge | Histogram
AnyMetric = TypeVar("AnyMetric", Counter, Gauge, Histogram)


class Metrics:
    """All metrics of one broker, under their names."""

    def __init__(self) -> None:
        self._help: dict[str, str] = {}
        self._series: dict[str, list[tuple[Labels, Metric]]] = {}
        self.received_bytes = self.counter("semel_received_bytes_total", "Bytes of requests read from connections.")
        self.sent_bytes = self.counter("semel_sent_bytes_total", "Bytes of responses written to connections.")
        self.connections_accepted = self.counter("semel_connections_accepted_total", "Connections that were accepted.")
        self.connections_refused = self.counter(
            "semel_connections_refused_total", "Connections closed at once because a limit was reached."
        )
        self.connections_stalled = self.counter(
            "semel_connections_stalled_total", "Connections closed because their clients read or sent nothing."
        )
        self.malformed = self.counter(
            "semel_malformed_requests_total", "Connections closed because of what they sent: not a request we serve."
        )
        self.logins = self.counter("semel_logins_total", "Proofs of who a client is that were taken.")
        self.logins_refused = self.counter("semel_logins_refused_total", "Proofs of who a client is that failed.")
        self.throttled = self.counter(
            "semel_throttled_requests_total", "Answers after which a client was muted for its quota."
        )
        self.failed = self.counter("semel_failed_requests_total", "Requests that met a bug in the broker; see the log.")
        self.appended_batches = self.counter("semel_appended_batches_total", "Record batches appended for producers.")
        self.appended_records = self.counter("semel_appended_records_total", "Records appended for producers.")
        self.appended_bytes = self.counter("semel_appended_bytes_total", "Bytes of record batches appended.")
        self.duplicate_batches = self.counter(
            "semel_duplicate_batches_total", "Retried batches answered with the offset they already have."
        )
        self.fetched_bytes = self.counter("semel_fetched_bytes_total", "Bytes of record batches sent to consumers.")
        self._requests: dict[str, Histogram] = {}

    def counter(self, name: str, help_text: str, **labels: str) -> Counter:
        return self._add(name, help_text, labels, Counter())

    def gauge(self, name: str, help_text: str, read: Callable[[], float], **labels: str) -> Gauge:
        return self._add(name, help_text, labels, Gauge(read))

    def read_counter(self, name: str, help_text: str, read: Callable[[], float], **labels: str) -> Gauge:
        return self._add(name, help_text, labels, ReadCounter(read))

    def histogram(self, name: str, help_text: str, **labels: str) -> Histogram:
        return self._add(name, help_text, labels, Histogram())

    def requests(self, api: str) -> Histogram:
        """Return the histogram of one API's requests: the time from the last byte read to the response sent."""
        histogram = self._requests.get(api)
        if histogram is None:
            histogram = counted = self._requests[api] = self.histogram(
                "semel_request_seconds", "Time from a whole request to its answer, waiting included.", api=api
            )
            self.read_counter("semel_requests_total", "Requests answered.", lambda: counted.count, api=api)
        return histogram

    def render(self) -> str:
        """Return the page that Prometheus scrapes (text format 0.0.4)."""
        lines: list[str] = []
        for name, series in self._series.items():
            lines.append(f"# HELP {name} {self._help[name]}")
            lines.append(f"# TYPE {name} {series[0][1].kind}")
            for labels, metric in series:
                lines.extend(metric.samples(name, labels))
        return "\n".join(lines) + "\n"

    def _add(self, name: str, help_text: str, labels: Labels, metric: AnyMetric) -> AnyMetric:
        self._help.setdefault(name, help_text)
        self._series.setdefault(name, []).append((labels, metric))
        return metric


def _sample(name: str, labels: Labels, value: float) -> str:
    if labels:
        name += "{" + ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items()) + "}"
    return f"{name} {value!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
