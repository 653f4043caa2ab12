"""What the benchmarks say of their figures: ratios in the right direction, aims judged, pictures that are pictures."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from benchmarks.contestants import KAFKA, SEMEL_OS
from benchmarks.latency import quantile
from benchmarks.measuring import Measured, Row
from benchmarks.picture import svg
from benchmarks.plan import ROWS
from benchmarks.running import Results
from benchmarks.table import advantage, markdown, shown

FAST = Row("fast", "throughput", "MB/s", aim=2.0)
SLOW = Row("slow", "latency", "ms", higher_is_better=False, aim=1.0)
BACK = Row("back", "recovery", "s", higher_is_better=False, limit=0.5)


def results(semel: dict[str, float], kafka: dict[str, float]) -> Results:
    measured = Results()
    measured.add(SEMEL_OS, Measured(semel))
    measured.add(KAFKA, Measured(kafka))
    return measured


def test_better_is_more_than_one_whichever_direction_is_better() -> None:
    measured = results({"fast": 300, "slow": 0.5, "back": 0.4}, {"fast": 100, "slow": 1.0, "back": 12.0})
    assert [advantage(row, measured.final) for row in (FAST, SLOW, BACK)] == [3.0, 2.0, pytest.approx(30.0)]


def test_a_missed_aim_is_said_so() -> None:
    measured = results({"fast": 150, "slow": 2.0, "back": 0.6}, {"fast": 100, "slow": 1.0, "back": 12.0})
    lines = markdown([FAST, SLOW, BACK], [SEMEL_OS, KAFKA], measured.final).splitlines()[2:]
    assert all("(missed)" in line for line in lines), lines
    assert "at most 0.5 s" in lines[2]


def test_without_apache_kafka_there_are_figures_and_no_ratios() -> None:
    measured = Results()
    measured.add(SEMEL_OS, Measured({"fast": 123_456.0}))
    (line,) = markdown([FAST, SLOW], [SEMEL_OS], measured.final).splitlines()[2:]
    assert "123,000" in line
    assert " x " not in line.replace("2 x ", "")


def test_the_last_round_counts() -> None:
    measured = results({"fast": 1.0}, {"fast": 1.0})
    measured.add(SEMEL_OS, Measured({"fast": 9.0}))
    assert measured.final("fast", SEMEL_OS) == 9.0


def test_a_row_that_others_disturbed_is_marked() -> None:
    measured = results({"fast": 1.0}, {"fast": 1.0})
    measured.add(KAFKA, Measured({"fast": 1.0}, disturbed_percent=50.0))
    assert "throughput ~" in markdown([FAST], [SEMEL_OS, KAFKA], measured.final, measured.disturbed())


@pytest.mark.parametrize(
    ("figure", "text"), [(None, "-"), (0.2134, "0.213"), (12.345, "12.3"), (123.4, "123"), (98_765.4, "98,800")]
)
def test_figures_are_shown_with_three_digits(figure: float | None, text: str) -> None:
    assert shown(figure) == text


def test_a_quantile_is_one_of_the_values() -> None:
    ordered = [float(number) for number in range(1, 101)]
    assert (quantile(ordered, 0.5), quantile(ordered, 0.99), quantile([7.0], 0.99)) == (51.0, 100.0, 7.0)


def test_the_picture_is_an_image_with_a_bar_for_every_ratio() -> None:
    measured = results({"fast": 300, "slow": 2.0}, {"fast": 100, "slow": 1.0})
    picture = ElementTree.fromstring(svg([FAST, SLOW, BACK], measured.final, "a <machine>"))
    bars = [part for part in picture.iter("{http://www.w3.org/2000/svg}rect") if part.get("x") is not None]
    assert len(bars) == 2


def test_every_row_has_a_key_of_its_own() -> None:
    assert len({row.key for row in ROWS}) == len(ROWS)
