"""The examples do what they say, on a broker with default settings, also when they are started on an empty one."""

from __future__ import annotations

import asyncio
import json
import runpy
import sys
from collections.abc import Iterator

import pytest

from semel import blocking
from semel.testing import Broker, exactly_once
from tests.examples.loading import EXAMPLES, load_example

ORDERS = [json.dumps({"amount": amount}).encode() for amount in (5, 1500, 20, 3000, 999, 1000)]

# What each prints on a broker that has nothing; tests/spark/test_example.py runs the ones that use Spark.
PRINTED = {
    "compacted_table": ["ann {'city': 'Arles'}", "cid {'city': 'Cork'}"],
    "copy_asyncio": ["72 orders"],
    "copy_blocking": ["72 orders"],
    "dead_letters": ["three apples: JSONDecodeError: Expecting value: line 1 column 1 (char 0)"],
    "dedup": ["5 events passed on"],
    "payments": ["sum 0"],
    "sample_orders": ["72 orders written"],
}
USE_SPARK = {"spark_sinks.py", "spark_totals.py", "totals.toml"}
# tests/lab/test_notebooks.py runs them.
NOTEBOOKS = {"notebooks/"}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def _fill(broker: Broker, topic: str, records: list[tuple[bytes, bytes]]) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for key, value in records:
            producer.send(topic, value, key=key)


def test_every_example_is_listed_and_run_and_every_one_listed_is_there() -> None:
    listed = {
        line.split("`")[1] for line in (EXAMPLES / "README.md").read_text().splitlines() if line.startswith("| `")
    }
    assert listed == {path.name for path in EXAMPLES.iterdir() if path.suffix in (".py", ".toml")} | NOTEBOOKS
    assert listed == {f"{name}.py" for name in PRINTED} | USE_SPARK | NOTEBOOKS


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_shows_something_on_an_empty_broker(
    broker: Broker, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setattr(sys, "argv", [f"{name}.py", broker.bootstrap_servers])
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    printed = capsys.readouterr().out.splitlines()
    assert [line for line in PRINTED[name] if not any(said.endswith(line) for said in printed)] == []


@pytest.mark.parametrize("name", ["copy_asyncio", "copy_blocking"])
def test_orders_are_counted_and_large_ones_reviewed(broker: Broker, name: str) -> None:
    _fill(broker, "orders", [(b"ann", order) for order in ORDERS])
    run, servers = load_example(name).run, broker.bootstrap_servers
    assert (asyncio.run(run(servers)) if name == "copy_asyncio" else run(servers)) == len(ORDERS)
    assert len(broker.committed("counted")) == len(ORDERS)
    assert sorted(json.loads(record.value or b"")["amount"] for record in broker.committed("reviews")) == [
        1000,
        1500,
        3000,
    ]


def test_the_copy_is_exactly_once_when_the_answer_to_its_commit_is_lost() -> None:
    copy = load_example("copy_blocking").run
    outcomes = exactly_once.prove(
        copy,
        given={"orders": ORDERS},
        expect={"counted": ORDERS},
        scenarios=[scenario for scenario in exactly_once.SCENARIOS if "EndTxn" in scenario.name],
        group_initial_rebalance_delay_ms=0,
    )
    assert all(outcome.struck for outcome in outcomes)


def test_the_sum_of_all_accounts_stays_zero_and_some_transfers_are_refused(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    balances = load_example("payments").run(broker.bootstrap_servers, transfers=60)
    assert sum(balances.values()) == 0
    assert any(balances.values())
    assert "refused" in capsys.readouterr().out


def test_repeated_events_are_passed_on_once_also_over_two_lives(broker: Broker) -> None:
    events = [(str(number % 5).encode(), b"event") for number in range(15)]
    _fill(broker, "events", events)
    run, servers = load_example("dedup").run, broker.bootstrap_servers
    assert run(servers) == 5
    _fill(broker, "events", [*events, (b"new", b"event")])
    assert run(servers) == 1
    assert sorted(record.key or b"" for record in broker.committed("unique")) == [b"0", b"1", b"2", b"3", b"4", b"new"]


def test_what_is_no_order_is_a_dead_letter_and_the_others_are_invoiced_once(broker: Broker) -> None:
    run, servers = load_example("dead_letters").run, broker.bootstrap_servers
    refused = run(servers)
    assert [line.partition(": ")[0] for line in refused] == ["three apples", '{"price"']
    assert run(servers) == refused
    assert sorted(record.value or b"" for record in broker.committed("invoices")) == [b"pay 10", b"pay 6"]


def test_a_compacted_topic_is_a_table(broker: Broker) -> None:
    assert load_example("compacted_table").run(broker.bootstrap_servers) == {
        "ann": {"city": "Arles"},
        "cid": {"city": "Cork"},
    }
