from __future__ import annotations

import pytest

from semel.inspection.times import time_text, timestamp_of


def test_times_are_utc_with_milliseconds() -> None:
    assert time_text(1_769_860_800_250) == "2026-01-31T12:00:00.250Z"
    assert (
        timestamp_of("2026-01-31T12:00:00.250Z") == timestamp_of("2026-01-31T13:00:00.250+01:00") == 1_769_860_800_250
    )
    assert timestamp_of("2026-01-31T12:00:00") == 1_769_860_800_000


def test_a_time_that_no_calendar_has_stays_a_number() -> None:
    """A producer may send any number, and a page or a table that shows the record must not fail at it."""
    assert time_text(2**63 - 1) == "9223372036854775807 ms"
    assert time_text(-1) is None


def test_a_text_that_is_no_time_is_named() -> None:
    with pytest.raises(ValueError, match="'yesterday' is no time"):
        timestamp_of("yesterday")
