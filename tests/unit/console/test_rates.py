from __future__ import annotations

from semel.console.rates import Rates
from semel.types import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def test_rates_come_from_the_ends_of_partitions() -> None:
    now = [0.0]
    rates = Rates(lambda: now[0])
    for second, ends in ((0, {A: 0, B: 0}), (2, {A: 100, B: 10}), (4, {A: 300, B: 10})):
        now[0] = float(second)
        rates.sample(lambda ends=ends: ends)  # type: ignore[misc]
    assert rates.series() == [55.0, 100.0]
    assert (rates.now(), rates.now("a"), rates.now("b")) == (77.5, 75.0, 2.5)


def test_a_fresh_sample_is_not_taken_again_and_one_alone_has_no_rate() -> None:
    rates = Rates(lambda: 1.0)
    rates.sample(lambda: {A: 1})
    rates.sample(lambda: {A: 99})
    assert (rates.now(), rates.series()) == (None, [])


def test_a_topic_that_is_new_or_was_made_again_does_not_count_at_once() -> None:
    now = [0.0]
    rates = Rates(lambda: now[0])
    rates.sample(lambda: {A: 1_000})
    now[0] = 2.0
    rates.sample(lambda: {A: 5, B: 700})
    assert rates.now() == 0.0
