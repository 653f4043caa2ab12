"""Counters, gauges and histograms, as Prometheus reads them."""

from __future__ import annotations

from semel.broker.metrics.metrics import SECONDS_BOUNDS, Counter, Histogram, Metrics


def numbers(page: str) -> dict[str, float]:
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in page.splitlines() if not line.startswith("#"))
    }


def test_counters_gauges_and_histograms_are_written_as_prometheus_reads_them() -> None:
    metrics = Metrics()
    metrics.counter("c_total", "Counts.", kind='a"b').value += 3
    metrics.gauge("g", "Looks.", lambda: 1.5)
    metrics.histogram("h_seconds", "Takes.").observe(0.003)

    page = metrics.render()

    assert '# HELP c_total Counts.\n# TYPE c_total counter\nc_total{kind="a\\"b"} 3\n' in page
    assert "# HELP g Looks.\n# TYPE g gauge\ng 1.5\n" in page
    assert "# TYPE h_seconds histogram\n" in page
    found = numbers(page)
    assert found['h_seconds_bucket{le="0.0025"}'] == 0
    assert found['h_seconds_bucket{le="0.005"}'] == 1
    assert found['h_seconds_bucket{le="+Inf"}'] == found["h_seconds_count"] == 1
    assert found["h_seconds_sum"] == 0.003


def test_a_histogram_counts_a_value_at_its_bound_below_it_and_one_above_all_in_the_last() -> None:
    histogram = Histogram()
    for bound in SECONDS_BOUNDS:
        histogram.observe(bound)
    histogram.observe(1000)

    counts = [float(line.rpartition(" ")[2]) for line in histogram.samples("h", {})]
    assert counts[: len(SECONDS_BOUNDS) + 1] == list(range(1, len(SECONDS_BOUNDS) + 2))


def test_series_of_one_name_share_one_head() -> None:
    metrics = Metrics()
    metrics.requests("Produce").observe(0.1)
    metrics.requests("Fetch")
    metrics.requests("Produce").observe(0.2)

    page = metrics.render()

    assert page.count("# TYPE semel_requests_total counter") == 1
    assert numbers(page)['semel_requests_total{api="Produce"}'] == 2
    assert numbers(page)['semel_requests_total{api="Fetch"}'] == 0


def test_a_counter_is_a_plain_number() -> None:
    counter = Counter()
    counter.value += 2
    assert list(counter.samples("c", {})) == ["c 2"]
