from __future__ import annotations

from semel.inspection import producer_window
from semel.log.producers import known_producer


def test_the_window_that_is_shown_is_the_one_of_a_partition() -> None:
    assert producer_window.WINDOW == known_producer.WINDOW
