"""The examples do what they say, and go on doing it after the broker was killed under them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator

import pytest

from semel import blocking
from semel.testing import Broker, exactly_once
from tests.examples.loading import EXAMPLES, load_example
from tools.patience import wait_until

ORDERS = [json.dumps({"amount": amount}).encode() for amount in (5, 1500, 20, 3000, 999, 1000)]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(num_partitions=2, group_initial_rebalance_delay_ms=0) as running:
        yield running


def _fill(broker: Broker, topic: str, records: list[tuple[bytes, bytes]]) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for key, value in records:
            producer.send(topic, value, key=key)


def _until_all_is_read(run: Callable[[], int], servers: str, group: str, records: int) -> int:
    """Run an example until its group has read so many records; the sum of what the runs returned.

    It ends when nothing came for a while. On a busy machine that may be before the first record came.
    """
    returned = 0

    def has_read_all() -> bool:
        nonlocal returned
        returned += run()
        with blocking.Admin(bootstrap_servers=servers) as admin:
            return (
                sum(reached.offset for reached in admin.groups.list_offsets(group, require_stable=True).values())
                == records
            )

    wait_until(has_read_all)
    return returned


def test_every_example_is_listed_and_every_one_listed_is_there() -> None:
    listed = {
        line.split("`")[1] for line in (EXAMPLES / "README.md").read_text().splitlines() if line.startswith("| `")
    }
    assert listed == {path.name for path in EXAMPLES.glob("*.py")}


@pytest.mark.parametrize("name", ["copy_asyncio", "copy_blocking"])
def test_orders_are_counted_and_large_ones_reviewed(broker: Broker, name: str) -> None:
    _fill(broker, "orders", [(b"ann", order) for order in ORDERS])
    run, servers = load_example(name).run, broker.bootstrap_servers

    def copy() -> int:
        return int(asyncio.run(run(servers, idle_ms=500)) if name == "copy_asyncio" else run(servers, idle_ms=500))

    assert _until_all_is_read(copy, servers, "review", len(ORDERS)) == len(ORDERS)
    assert len(broker.committed("counted")) == len(ORDERS)
    assert sorted(json.loads(record.value or b"")["amount"] for record in broker.committed("reviews")) == [
        1000,
        1500,
        3000,
    ]


def test_the_copy_is_exactly_once_when_the_answer_to_its_commit_is_lost() -> None:
    def copy_all(servers: str) -> None:
        run = load_example("copy_blocking").run
        _until_all_is_read(lambda: int(run(servers, idle_ms=500)), servers, "review", len(ORDERS))

    outcomes = exactly_once.prove(
        copy_all,
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

    def pass_on() -> int:
        return int(run(servers, idle_ms=500))

    assert _until_all_is_read(pass_on, servers, "dedup", 15) == 5
    _fill(broker, "events", [*events, (b"new", b"event")])
    assert _until_all_is_read(pass_on, servers, "dedup", 31) == 1
    assert sorted(record.key or b"" for record in broker.committed("unique")) == [b"0", b"1", b"2", b"3", b"4", b"new"]


def test_a_compacted_topic_is_a_table(broker: Broker) -> None:
    assert load_example("compacted_table").run(broker.bootstrap_servers) == {
        "ann": {"city": "Arles"},
        "cid": {"city": "Cork"},
    }
