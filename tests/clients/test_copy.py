"""A topic copied in transactions while its broker is killed. ``make campaign-copy`` copies more, under more kills."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel import blocking
from semel.testing import Broker
from tools.brokers import semel
from tools.copier_process import JAVA_COPIER, OWN, PYTHON_COPIERS, Copier
from tools.copy_run import copy_under_kills, differences
from tools.frames import now_ms
from tools.patience import PATIENCE_MS, PATIENCE_S, wait_until
from tools.run_result import to_json
from tools.server import running
from tools.transaction_ages import TransactionAges, undecided_ages_ms

JAVA = pytest.param(JAVA_COPIER, id="java", marks=[pytest.mark.kafka, pytest.mark.needs("kafka", "javac")])


@pytest.mark.parametrize("copier", [*PYTHON_COPIERS, JAVA], ids=str)
def test_kills_of_the_broker_leave_a_copy_that_equals_its_source(tmp_path: Path, copier: Copier) -> None:
    """Scenarios 31 to 36 and 51 on real processes: nothing lost, doubled, reordered, or open for too long."""
    with running(semel(tmp_path)) as server:
        verdict = copy_under_kills(
            server,
            copier,
            tmp_path,
            seed=1,
            records=10_000,
            kills=3,
            # Ours must not hang, and is given the time of a busy machine; others do, and are started again.
            hang_s_max=PATIENCE_S if copier.name == OWN else 30.0,
            transaction_timeout_ms=PATIENCE_MS,
            sweep_ms_max=PATIENCE_MS,
        )
    assert verdict.passed, to_json(verdict)
    assert verdict.kills == 3


def test_open_transactions_are_seen_with_their_age_and_decided_ones_are_not() -> None:
    with (
        Broker() as broker,
        blocking.Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="open") as producer,
    ):
        producer.begin()
        began_ms = now_ms()
        producer.send("topic", b"value")
        producer.flush()
        ages = undecided_ages_ms(broker.bootstrap_servers)
        assert list(ages) == ["open"]
        assert 0 <= ages["open"] <= now_ms() - began_ms
        with TransactionAges(broker.bootstrap_servers) as watching:
            wait_until(lambda: watching.times_seen >= 2, "an open transaction is not seen")
        assert watching.oldest_ms > ages["open"]
        producer.commit()
        # Its markers are written, but that they are is not yet on record when the commit is answered.
        wait_until(lambda: not undecided_ages_ms(broker.bootstrap_servers), "a committed transaction stays undecided")


SOURCE = [b"a", b"b", b"c"]


def test_an_equal_copy_has_no_differences() -> None:
    assert differences(SOURCE, [b"a", b"b", b"c"]) == []


@pytest.mark.parametrize(
    ("copy", "expected"),
    [
        ([b"a", b"c"], ["1 records lost, b'b' first"]),
        ([b"a", b"b", b"c", b"b"], ["1 records copied twice, b'b' first"]),
        ([b"b", b"a", b"c"], ["out of order, at b'b' first"]),
        ([b"a", b"b", b"c", b"x"], ["1 records not from the source, b'x' first"]),
        ([b"a", b"a", b"c"], ["1 records lost, b'b' first", "1 records copied twice, b'a' first"]),
    ],
)
def test_a_copy_that_is_not_equal_is_told(copy: list[bytes], expected: list[str]) -> None:
    assert differences(SOURCE, copy) == expected
