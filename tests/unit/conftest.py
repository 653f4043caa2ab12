"""Unit tests may read log lines, whatever ran before them in the same process."""

from __future__ import annotations

import pytest

from semel.broker.log_lines import guard_log_lines


@pytest.fixture(autouse=True)
def all_lines_may_be_written() -> None:
    """A broker that ran in this process limits how often a line is written. Earlier tests may have used that up."""
    guard_log_lines()
