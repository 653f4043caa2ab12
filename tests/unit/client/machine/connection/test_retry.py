"""``Retry``: the pauses grow, are never the same for two clients, and end with a success."""

from __future__ import annotations

from random import Random

import pytest

from semel.client.config.producer import ProducerConfig
from semel.client.machine.connection.retry import Backoff, Retry, markers_backoff
from semel.clock import NEVER

SETTINGS = {"bootstrap_servers": "a:1", "retry_backoff_ms": 100, "retry_backoff_max_ms": 1_000}
CLIENT = ProducerConfig.load(SETTINGS).client


def test_pauses_double_up_to_the_limit_with_a_fifth_of_jitter() -> None:
    backoff = Backoff(100, 1_000, Random(0))
    for failures, pause_ms in enumerate((100, 200, 400, 800), start=1):
        pauses = {backoff.delay_ms(failures) for _ in range(200)}
        assert 0.8 * pause_ms <= min(pauses) < max(pauses) <= min(1.2 * pause_ms, 1_000)
    assert 800 <= backoff.delay_ms(1_000_000) <= 1_000


def test_the_longest_pause_counts_where_the_first_is_longer() -> None:
    assert Backoff(5_000, 1_000, Random(0)).delay_ms(1) <= 1_000


def test_the_first_attempt_is_due_at_once() -> None:
    retry = Retry.of(CLIENT, Random(0))
    assert (retry.failures, retry.is_due(0.0), retry.next_deadline_ms(0.0)) == (0, True, NEVER)


def test_a_failure_gives_another_value_that_is_due_after_the_pause() -> None:
    first = Retry.of(CLIENT, Random(0))
    second = first.failed(5_000.0)
    assert first == Retry(first.backoff)
    assert second.failures == 1
    assert 5_080 <= second.due_ms <= 5_120
    assert not second.is_due(second.due_ms - 1)
    assert second.next_deadline_ms(5_000.0) == second.due_ms
    assert second.is_due(second.due_ms)
    assert second.next_deadline_ms(second.due_ms) == NEVER


def test_a_success_ends_the_row_of_failures() -> None:
    first = Retry.of(CLIENT, Random(0))
    assert first.failed(0.0).failed(0.0).succeeded() == first


def test_an_attempt_may_be_put_off_or_made_at_once_without_a_failure() -> None:
    failed = Retry.of(CLIENT, Random(0)).failed(0.0)
    assert (failed.at(0.0).failures, failed.at(0.0).is_due(0.0), failed.at(900.0).due_ms) == (1, True, 900.0)


@pytest.mark.parametrize(("failures", "at_most_ms"), [(1, 3), (20, 20)])
def test_markers_that_are_being_written_are_asked_for_again_soon(failures: int, at_most_ms: int) -> None:
    backoff = markers_backoff(CLIENT, Random(0))
    retry = Retry(Backoff.of(CLIENT, Random(0)), failures=failures - 1).failed(0.0, backoff)
    assert 1 <= retry.due_ms <= at_most_ms
