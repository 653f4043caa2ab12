"""The scenarios of a proof: kills and stops at commit points, kills at random requests, faults on the wire.

A scenario happens at a request, never at a point in time. ``scenarios_for`` makes the list from the requests that the
application made in a run without faults.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from random import Random
from typing import Final

from semel.testing.faults import Fault, Faults
from semel.testing.prover.trial import Trial
from semel.wire.apis import APIS, ApiKey

COMMIT_POINTS: Final = (ApiKey.PRODUCE, ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN)
"""The requests by which an application changes records, offsets or transactions on a broker."""

RANDOM_KILLS: Final = 8
_EVERY_ONE_MAX: Final = 5

Arm = Callable[[Trial], Fault | None]


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kill or fault that the application must survive. ``arm`` prepares it before the application starts."""

    name: str
    arm: Arm
    api: ApiKey | None = None
    """The API of the request at which it happens."""
    occurrence: int = 1
    """The number of that request among those of the API, from 1."""
    earlier: Callable[[int], Scenario] | None = None
    """Makes the same scenario for another occurrence, if the application made fewer requests this time."""
    kills: bool = False
    """Whether the application is killed or stopped, for which it must run in a process of its own."""
    restarts: bool = False
    """Whether the broker is killed and restarted."""
    again: bool = False
    """Whether the application is started once more after it has ended."""
    aborts: bool = False
    """Whether the input has an aborted copy of each record."""

    def __str__(self) -> str:
        return self.name


class Phase(Enum):
    """When a kill happens, relative to the request of the scenario."""

    BEFORE = "before {} reaches the broker"
    CARRIED_OUT = "after {} is carried out, before its answer"
    ANSWERED = "after the answer to {}, at the next request"


WITHOUT_FAULTS: Final = Scenario("without faults", lambda trial: None)
STARTED_AGAIN: Final = Scenario("started again after it has ended", lambda trial: None, again=True)
ABORTED_INPUT: Final = Scenario("the input has an aborted copy of each record", lambda trial: None, aborts=True)


def killed(api: ApiKey, phase: Phase, occurrence: int = 1) -> Scenario:
    """Return the scenario in which the application is killed at its n-th request of this API."""
    name = APIS[api].name

    def arm(trial: Trial) -> Fault:
        skip = occurrence - 1
        match phase:
            case Phase.BEFORE:
                return trial.faults.drop_request(name, skip=skip, then=trial.kill_application)
            case Phase.CARRIED_OUT:
                return trial.faults.drop_response(name, skip=skip, then=trial.kill_application)
            case Phase.ANSWERED:
                return trial.faults.drop_next_request(name, skip=skip, then=trial.kill_application)

    return Scenario(
        f"killed {phase.value.format(f'{name} {occurrence}')}",
        arm,
        api,
        occurrence,
        earlier=lambda at: killed(api, phase, at),
        kills=True,
    )


def stopped(api: ApiKey, occurrence: int = 1) -> Scenario:
    """Return the scenario in which the application is stopped at its n-th request of this API.

    Another life of it takes over, and then the stopped one continues.
    """
    name = APIS[api].name
    return Scenario(
        f"stopped before {name} {occurrence} reaches the broker, while another life takes over",
        lambda trial: trial.faults.hold(name, skip=occurrence - 1, then=trial.stop_application),
        api,
        occurrence,
        earlier=lambda at: stopped(api, at),
        kills=True,
    )


def scenarios_for(requests: Counter[ApiKey], *, seed: int = 0) -> Iterator[Scenario]:
    """Return the scenarios for an application that made ``requests`` in a run without faults.

    Those that find the most bugs come first: kills at the first request of each API, then faults, then kills at later
    requests and at random ones.
    """
    listed = list(_listed(requests))
    yield from listed
    names = {scenario.name for scenario in listed}
    others = [scenario for scenario in _kills_anywhere(requests) if scenario.name not in names]
    for scenario in Random(seed).sample(others, min(RANDOM_KILLS, len(others))):
        yield replace(scenario, name=f"at random: {scenario.name}")


def _listed(requests: Counter[ApiKey]) -> Iterator[Scenario]:
    yield STARTED_AGAIN
    yield ABORTED_INPUT
    for api in COMMIT_POINTS:
        for phase in Phase:
            yield from _killed_at(api, phase, {1}, requests[api])
    for api in COMMIT_POINTS:
        yield stopped(api)
    yield from FAULTS
    for api in COMMIT_POINTS:
        last = requests[api]
        for phase in Phase:
            yield from _killed_at(api, phase, _later(last), last)
        if last > 1:
            yield stopped(api, last)


def _later(count: int) -> set[int]:
    """Return the occurrences after the first: all of them if there are few, else one in the middle and the last."""
    return set(range(2, count + 1)) if count <= _EVERY_ONE_MAX else {count // 2, count}


def _killed_at(api: ApiKey, phase: Phase, occurrences: set[int], last: int) -> Iterator[Scenario]:
    for occurrence in sorted(occurrences):
        # After the last answer there may be no next request.
        if phase is not Phase.ANSWERED or occurrence < last:
            yield killed(api, phase, occurrence)


def _kills_anywhere(requests: Counter[ApiKey]) -> Iterator[Scenario]:
    for api in sorted(requests):
        for occurrence in range(1, requests[api] + 1):
            for phase in (Phase.BEFORE, Phase.CARRIED_OUT):
                yield killed(api, phase, occurrence)


def _fault(what: str, api: ApiKey, arm: Callable[[Faults, str], Fault]) -> Scenario:
    return Scenario(what, lambda trial: arm(trial.faults, APIS[api].name), api)


def _broker_killed(when: str, api: ApiKey, *, after: bool) -> Scenario:
    """Return the scenario in which the broker is killed before it sees the request, or after it has carried it out."""

    def arm(trial: Trial) -> Fault:
        drop = trial.faults.drop_response if after else trial.faults.drop_request
        return drop(APIS[api].name, then=trial.kill_broker)

    return Scenario(f"the broker is killed {when}", arm, api, restarts=True)


FAULTS: Final = (
    _fault("the answer to the first Produce is lost", ApiKey.PRODUCE, Faults.drop_response),
    _fault(
        "the answers to five Produces are lost",
        ApiKey.PRODUCE,
        lambda faults, api: faults.drop_response(api, times=5),
    ),
    _fault("a Produce is lost", ApiKey.PRODUCE, Faults.drop_request),
    _fault(
        "a Produce meets a leader that has moved",
        ApiKey.PRODUCE,
        lambda faults, api: faults.fail(api, "NOT_LEADER_OR_FOLLOWER"),
    ),
    _fault(
        "a Produce is refused for good",
        ApiKey.PRODUCE,
        lambda faults, api: faults.fail(api, "TOPIC_AUTHORIZATION_FAILED"),
    ),
    _fault("the answer to InitProducerId is lost", ApiKey.INIT_PRODUCER_ID, Faults.drop_response),
    _fault("the answer to AddPartitionsToTxn is lost", ApiKey.ADD_PARTITIONS_TO_TXN, Faults.drop_response),
    _fault("the answer to OffsetCommit is lost", ApiKey.OFFSET_COMMIT, Faults.drop_response),
    _fault(
        "OffsetCommit is refused: the member is of an old generation",
        ApiKey.OFFSET_COMMIT,
        lambda faults, api: faults.fail(api, "ILLEGAL_GENERATION"),
    ),
    _fault("the answer to TxnOffsetCommit is lost", ApiKey.TXN_OFFSET_COMMIT, Faults.drop_response),
    _fault(
        "TxnOffsetCommit meets a coordinator that loads",
        ApiKey.TXN_OFFSET_COMMIT,
        lambda faults, api: faults.fail(api, "COORDINATOR_LOAD_IN_PROGRESS", times=2),
    ),
    _fault(
        "TxnOffsetCommit is refused: the member is of an old generation",
        ApiKey.TXN_OFFSET_COMMIT,
        lambda faults, api: faults.fail(api, "ILLEGAL_GENERATION"),
    ),
    _fault("an EndTxn is lost", ApiKey.END_TXN, Faults.drop_request),
    _fault("the answer to EndTxn is lost", ApiKey.END_TXN, Faults.drop_response),
    _fault("EndTxn is slow", ApiKey.END_TXN, lambda faults, api: faults.delay(api, seconds=0.5)),
    _fault(
        "EndTxn meets a coordinator that has moved",
        ApiKey.END_TXN,
        lambda faults, api: faults.fail(api, "NOT_COORDINATOR"),
    ),
    _broker_killed("before it sees a Produce", ApiKey.PRODUCE, after=False),
    _broker_killed("after a Produce", ApiKey.PRODUCE, after=True),
    _broker_killed("after OffsetCommit", ApiKey.OFFSET_COMMIT, after=True),
    _broker_killed("after TxnOffsetCommit", ApiKey.TXN_OFFSET_COMMIT, after=True),
    _broker_killed("before it sees EndTxn", ApiKey.END_TXN, after=False),
    _broker_killed("after EndTxn", ApiKey.END_TXN, after=True),
)
"""The scenarios in which the application is not killed."""
