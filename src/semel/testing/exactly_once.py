"""A test of exactly-once for an application: it runs under a list of faults, and its output is compared with the
expected.

    def run(servers: str) -> None:
        '''One life of the application: until its input is used up, or until it dies of something.'''

    exactly_once.prove(run, given={"orders": [b"1", b"2"]}, expect={"totals": [b"3"]})

Each fault gets a broker of its own. The application is started, and started again whenever it dies, until one run ends
by itself. Then every record that a read_committed reader sees is counted: one that is missing, or is there twice, is an
``AssertionError`` that names the fault and the record.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from semel.blocking import Producer
from semel.testing.broker import Broker
from semel.testing.faults import Fault

Application: TypeAlias = Callable[[str], None]
"""Takes the bootstrap servers."""

LIVES_MAX: Final = 10
STRIKE_SECONDS_MAX: Final = 60.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """Something that goes wrong. ``arm`` prepares it, before the application starts."""

    name: str
    arm: Callable[[Broker], Fault]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """How the application lived through one scenario."""

    scenario: str
    struck: int
    """How often the fault struck. 0: the application never made such a request, and nothing is proven."""
    lives: int


def prove(
    application: Application,
    *,
    given: Mapping[str, Sequence[bytes]],
    expect: Mapping[str, Iterable[bytes | None]],
    partitions: int = 2,
    scenarios: Sequence[Scenario] | None = None,
    **settings: object,
) -> list[ScenarioResult]:
    """Raises ``AssertionError`` at the first scenario whose result is wrong, or if no scenario struck at all.

    ``given`` are the values in the input topics, spread over their partitions; ``expect`` the values that readers of
    the output topics must see, in any order. ``settings`` are the broker's.
    """
    outcomes = []
    for scenario in SCENARIOS if scenarios is None else scenarios:
        with Broker(num_partitions=partitions, **settings) as broker:  # type: ignore[arg-type]
            _fill(broker, given, partitions)
            fault = scenario.arm(broker)
            lives = _live(application, broker, scenario)
            _compare(broker, scenario, expect)
            outcomes.append(ScenarioResult(scenario.name, fault.hits, lives))
    assert any(outcome.struck for outcome in outcomes), "no fault struck: does the application use this broker?"
    return outcomes


def _fill(broker: Broker, given: Mapping[str, Sequence[bytes]], partitions: int) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for topic, values in given.items():
            for number, value in enumerate(values):
                producer.send(topic, value, partition=number % partitions)


def _live(application: Application, broker: Broker, scenario: Scenario) -> int:
    for life in range(1, LIVES_MAX + 1):
        try:
            application(broker.bootstrap_servers)
        except Exception as error:
            died_of = error
        else:
            return life
    raise AssertionError(
        f"{scenario}: the application died {LIVES_MAX} times, the last time of {died_of!r}"
    ) from died_of


def _compare(broker: Broker, scenario: Scenario, expect: Mapping[str, Iterable[bytes | None]]) -> None:
    for topic, values in expect.items():
        expected = Counter(values)
        seen = Counter(record.value for record in broker.committed(topic))
        missing, doubled = expected - seen, seen - expected
        if missing or doubled:
            raise AssertionError(
                f"{scenario}: {topic} is wrong for read_committed readers. "
                f"Missing: {_some(missing)}. Too many: {_some(doubled)}"
            )


def _some(values: Counter[bytes | None]) -> str:
    shown = ", ".join(f"{value!r} x {count}" for value, count in values.most_common(5))
    return f"{shown} ({values.total()} in all)" if values else "none"


# -- what can go wrong


def _killed(api: str, *, after: bool) -> Callable[[Broker], Fault]:
    """The broker dies as by ``kill -9``, before it sees the request, or after it did what was asked."""

    def arm(broker: Broker) -> Fault:
        fault = broker.faults.drop_response(api) if after else broker.faults.delay(api, seconds=STRIKE_SECONDS_MAX)

        def kill() -> None:
            try:
                fault.wait(STRIKE_SECONDS_MAX)
            except TimeoutError:
                return  # The application makes no such request.
            broker.restart(kill=True)

        threading.Thread(target=kill, name=f"kill at {api}", daemon=True).start()
        return fault

    return arm


SCENARIOS: Final = (
    Scenario("the answer to the first Produce is lost", lambda broker: broker.faults.drop_response("Produce")),
    Scenario("the answers to five Produces are lost", lambda broker: broker.faults.drop_response("Produce", times=5)),
    Scenario("a Produce is lost", lambda broker: broker.faults.drop_request("Produce")),
    Scenario(
        "a Produce meets a leader that has moved",
        lambda broker: broker.faults.fail("Produce", "NOT_LEADER_OR_FOLLOWER"),
    ),
    Scenario("the answer to InitProducerId is lost", lambda broker: broker.faults.drop_response("InitProducerId")),
    Scenario(
        "the answer to AddPartitionsToTxn is lost", lambda broker: broker.faults.drop_response("AddPartitionsToTxn")
    ),
    Scenario("the answer to TxnOffsetCommit is lost", lambda broker: broker.faults.drop_response("TxnOffsetCommit")),
    Scenario(
        "TxnOffsetCommit meets a coordinator that loads",
        lambda broker: broker.faults.fail("TxnOffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS", times=2),
    ),
    Scenario("an EndTxn is lost", lambda broker: broker.faults.drop_request("EndTxn")),
    Scenario("the answer to EndTxn is lost", lambda broker: broker.faults.drop_response("EndTxn")),
    Scenario("EndTxn is slow", lambda broker: broker.faults.delay("EndTxn", seconds=0.5)),
    Scenario(
        "EndTxn meets a coordinator that has moved", lambda broker: broker.faults.fail("EndTxn", "NOT_COORDINATOR")
    ),
    Scenario("the broker is killed before it sees a Produce", _killed("Produce", after=False)),
    Scenario("the broker is killed after a Produce", _killed("Produce", after=True)),
    Scenario("the broker is killed after TxnOffsetCommit", _killed("TxnOffsetCommit", after=True)),
    Scenario("the broker is killed before it sees EndTxn", _killed("EndTxn", after=False)),
    Scenario("the broker is killed after EndTxn", _killed("EndTxn", after=True)),
)
"""What ``prove`` runs unless it is told otherwise."""
