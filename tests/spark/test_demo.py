"""``semel demo`` to its end: the same job, killed, with a plain sink and with ours."""

from __future__ import annotations

import re

import pytest

from semel.demo import demonstration
from tools.patience import SPARK_PATIENCE_S


@pytest.mark.spark_slow
@pytest.mark.timeout(10 * SPARK_PATIENCE_S)
def test_totals_are_wrong_after_the_kill_with_a_plain_sink_and_equal_with_ours(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demonstration, "_SECONDS_MAX", SPARK_PATIENCE_S)
    is_right = demonstration.run()
    printed = capfd.readouterr().out
    account = dict(re.findall(r"^  (plain sink|semel\.spark): +(.+)$", printed, re.MULTILINE))
    assert re.fullmatch(r"[1-9]\d* of \d+ totals twice; NOT EQUAL to the orders", account["plain sink"]), printed
    assert re.fullmatch(r"none of \d+ totals twice; equal to the orders", account["semel.spark"]), printed
    assert is_right
    # The plain sink comes first, and each has its customers in a table.
    assert printed.index("1. a plain sink") < printed.index("<- differs") < printed.index("2. semel.spark")
    assert "<- differs" not in printed.partition("2. semel.spark")[2]
    assert "kill -9 of the driver" in printed
    assert re.search(r"the table in SQLite that got the same batches has \d+ totals: the topic's", printed)
