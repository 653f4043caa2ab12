"""The proof for users' applications: it passes those that are exactly-once and catches those that are not."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

import pytest

from semel.testing import exactly_once
from semel.testing.exactly_once import (
    ABORTED_INPUT,
    STARTED_AGAIN,
    WITHOUT_FAULTS,
    Function,
    Phase,
    Scenario,
    ScenarioOutcome,
    killed,
    stopped,
)
from semel.testing.prover.scenarios import COMMIT_POINTS, scenarios_for
from semel.wire.apis import ApiKey
from tests.clients.own import planted_applications as planted

BEFORE, CARRIED_OUT, ANSWERED = Phase.BEFORE, Phase.CARRIED_OUT, Phase.ANSWERED
PRODUCE, OFFSET_COMMIT = ApiKey.PRODUCE, ApiKey.OFFSET_COMMIT
TXN_OFFSET_COMMIT, END_TXN = ApiKey.TXN_OFFSET_COMMIT, ApiKey.END_TXN


def disturbed(name: str) -> Scenario:
    (scenario,) = [scenario for scenario in exactly_once.SCENARIOS if scenario.name == name]
    return scenario


MEMBER_REFUSED = disturbed("TxnOffsetCommit is refused: the member is of an old generation")
PRODUCE_REFUSED = disturbed("a Produce is refused for good")

# Each with the scenario that is made for it, and what is wrong after it.
PLANTED: list[tuple[Function, Scenario, str]] = [
    (planted.commits_before_it_sends, killed(PRODUCE, BEFORE), "Missing: b'"),
    (planted.commits_after_it_sends, killed(OFFSET_COMMIT, BEFORE), "Too many: b'"),
    (planted.sends_without_acknowledgement, disturbed("a Produce is lost"), "Missing: b'"),
    (planted.commits_without_a_flush, killed(PRODUCE, BEFORE), "Missing: b'"),
    (planted.is_auto_commit, killed(OFFSET_COMMIT, BEFORE), "Too many: b'"),
    (planted.commits_nothing, STARTED_AGAIN, "Too many: b'"),
    (planted.sends_without_idempotence, disturbed("the answer to the first Produce is lost"), "Too many: b'"),
    (planted.ignores_a_failed_send, PRODUCE_REFUSED, "Missing: b'"),
    (planted.remembers_what_it_has_sent_in_memory, killed(OFFSET_COMMIT, BEFORE), "Too many: b'"),
    (planted.commits_offsets_after_the_transaction, killed(OFFSET_COMMIT, BEFORE), "Too many: b'"),
    (planted.commits_offsets_before_the_transaction, killed(OFFSET_COMMIT, ANSWERED), "Missing: b'"),
    (planted.commits_offsets_within_but_not_in_the_transaction, killed(END_TXN, BEFORE), "Missing: b'"),
    (planted.commits_offsets_of_another_group, STARTED_AGAIN, "Too many: b'"),
    (planted.commits_the_offset_of_the_last_record, STARTED_AGAIN, "Too many: b'"),
    (planted.commits_one_offset_too_far, killed(END_TXN, CARRIED_OUT), "Missing: b'"),
    (planted.commits_the_first_partition_only, STARTED_AGAIN, "Too many: b'"),
    (planted.commits_what_it_has_polled_and_not_processed, killed(END_TXN, CARRIED_OUT), "Missing: b'"),
    (planted.commits_offsets_once_in_a_while, killed(TXN_OFFSET_COMMIT, BEFORE), "Too many: b'"),
    (planted.commits_by_itself_and_in_transactions, MEMBER_REFUSED, "Missing: b'"),
    (planted.sends_outside_of_the_transaction, killed(END_TXN, BEFORE), "Too many: b'"),
    (planted.sends_the_second_topic_outside_of_the_transaction, killed(END_TXN, BEFORE), "audit .* Too many: b'"),
    (planted.reads_uncommitted_records, ABORTED_INPUT, "Too many: b'.*read_committed"),
    (planted.begins_at_the_end, killed(END_TXN, CARRIED_OUT), "Missing: b'"),
    (planted.swallows_an_abort, MEMBER_REFUSED, "Missing: b'"),
    (planted.commits_what_it_has_aborted, MEMBER_REFUSED, "Missing: b'"),
    (planted.repeats_a_batch_in_a_new_producer, stopped(END_TXN), "Too many: b'"),
    (planted.ends_well_whatever_happens, PRODUCE_REFUSED, "Missing: b'"),
    (planted.has_another_transactional_id_in_each_life, stopped(TXN_OFFSET_COMMIT), "Too many: b'"),
    (planted.shares_a_transactional_id_among_its_threads, WITHOUT_FAULTS, "Missing: b'"),
    (planted.keeps_records_across_a_rebalance, stopped(TXN_OFFSET_COMMIT), "Too many: b'"),
]


def _prove(
    application: Function | Sequence[str], scenarios: Sequence[Scenario] | None = None
) -> list[exactly_once.ScenarioResult]:
    expect = planted.expected_of(application)
    return exactly_once.prove(application, given=planted.GIVEN, expect=expect, scenarios=scenarios)


def test_a_transactional_copy_is_proven_under_every_scenario_that_fits_it() -> None:
    results = _prove(planted.transactional_copy)
    assert {result.outcome for result in results} == {ScenarioOutcome.RIGHT, ScenarioOutcome.NOT_APPLICABLE}
    assert all(result.struck for result in results[1:] if result.outcome is ScenarioOutcome.RIGHT)
    not_applicable = [result for result in results if result.outcome is ScenarioOutcome.NOT_APPLICABLE]
    assert {result.what for result in not_applicable} == {
        "the application makes no OffsetCommit request",
        "the application makes no AddPartitionsToTxn request",  # V2 has none.
    }
    kinds = Counter(result.scenario.split()[0] for result in results if result.outcome is ScenarioOutcome.RIGHT)
    assert kinds["killed"] >= 20
    assert kinds["stopped"] == 6
    assert kinds["at"] >= 4  # At random.


def test_a_proof_of_few_requests_kills_at_each_of_them() -> None:
    """Three commit points, four of each; after the last answer there is no next request."""
    requests = Counter({PRODUCE: 4, TXN_OFFSET_COMMIT: 4, END_TXN: 4, ApiKey.INIT_PRODUCER_ID: 20})
    scenarios = list(scenarios_for(requests, seed=1))
    names = {scenario.name for scenario in scenarios}
    assert len(names) == len(scenarios)
    wanted = [
        killed(api, phase, occurrence)
        for api in (PRODUCE, TXN_OFFSET_COMMIT, END_TXN)
        for phase in Phase
        for occurrence in range(1, 5 if phase is not ANSWERED else 4)
    ]
    assert {scenario.name for scenario in wanted} <= names
    at_random = [name for name in names if name.startswith("at random")]
    assert len(at_random) == 8
    assert {scenario.name for scenario in scenarios_for(requests, seed=1)} == names
    assert {scenario.name for scenario in scenarios_for(requests, seed=2)} != names


@pytest.mark.parametrize("application", planted.RIGHT[1:], ids=lambda application: application.__name__)
def test_what_is_exactly_once_passes(application: Function) -> None:
    scenarios = [
        STARTED_AGAIN,
        killed(END_TXN, BEFORE),
        killed(END_TXN, CARRIED_OUT, 2),
        stopped(END_TXN),
        MEMBER_REFUSED,
    ]
    results = _prove(application, scenarios)
    assert [(result.outcome, result.struck) for result in results] == [(ScenarioOutcome.RIGHT, 1)] * len(scenarios)


@pytest.mark.parametrize(
    ("application", "scenario", "wrong"), PLANTED, ids=lambda value: getattr(value, "__name__", "")
)
def test_every_planted_bug_is_found(application: Function, scenario: Scenario, wrong: str) -> None:
    with pytest.raises(AssertionError, match=wrong):
        _prove(application, [scenario])


def test_the_scenarios_of_the_planted_bugs_are_those_of_every_proof() -> None:
    names = {scenario.name for scenario in scenarios_for(Counter(dict.fromkeys(COMMIT_POINTS, 4)))}
    assert {scenario.name for _, scenario, _ in PLANTED} <= names | {WITHOUT_FAULTS.name}


def test_an_application_without_transactions_is_found_and_said_to_be_one() -> None:
    """It has no EndTxn to be killed at: the kill between its send and its commit finds it."""
    with pytest.raises(AssertionError, match=r"^killed after Produce 1 .*Too many: b'.*not transactional$"):
        _prove(planted.commits_after_it_sends)


def test_a_program_is_killed_as_a_function_is() -> None:
    def program(name: str) -> list[str]:
        return [sys.executable, planted.__file__, name]

    assert [result.lives for result in _prove(program("transactional_copy"), [killed(END_TXN, BEFORE)])] == [2]
    with pytest.raises(AssertionError, match="Too many: b'"):
        _prove(program("commits_after_it_sends"), [killed(OFFSET_COMMIT, BEFORE)])


def test_what_cannot_be_killed_is_disturbed_only_and_that_is_no_proof() -> None:
    def inner(servers: str) -> None:
        planted.transactional_copy(servers)

    lost = disturbed("the answer to EndTxn is lost")
    assert [(result.outcome, result.struck) for result in _prove(inner, [lost])] == [(ScenarioOutcome.RIGHT, 1)]
    with pytest.raises(AssertionError, match=r"killed before EndTxn 1 .*: the application was not killed"):
        _prove(inner, [killed(END_TXN, BEFORE)])


def test_a_scenario_that_struck_nothing_fails_with_the_request_that_was_never_made() -> None:
    with pytest.raises(AssertionError, match="made no OffsetCommit request"):
        _prove(planted.transactional_copy, [killed(OFFSET_COMMIT, BEFORE)])
    with pytest.raises(AssertionError, match="made no Produce request"):
        exactly_once.prove(planted.does_nothing, given=planted.GIVEN, expect={})


def test_an_occurrence_that_is_never_reached_is_replaced_by_an_earlier_one() -> None:
    (result,) = _prove(planted.transactional_copy, [killed(END_TXN, BEFORE, 9)])
    assert (result.scenario, result.struck) == ("killed before EndTxn 4 reaches the broker", 1)


def test_keys_are_compared_where_they_are_given() -> None:
    given = {"orders": [(b"ann", b"1"), (b"bob", b"2")]}
    exactly_once.prove(planted.copies_keys, given=given, expect={"copy": given["orders"]}, scenarios=[WITHOUT_FAULTS])
    with pytest.raises(
        AssertionError, match=r"Missing: key b'bob' value b'1' x 1. Too many: key b'ann' value b'1' x 1"
    ):
        exactly_once.prove(
            planted.copies_keys,
            given=given,
            expect={"copy": [(b"bob", b"1"), (b"bob", b"2")]},
            scenarios=[WITHOUT_FAULTS],
        )


def test_an_application_that_dies_every_time_is_given_up() -> None:
    with pytest.raises(AssertionError, match="died 10 times, the last time of RuntimeError: no coffee"):
        exactly_once.prove(planted.dies, given=planted.GIVEN, expect=planted.EXPECT)


def test_an_application_that_does_not_end_is_told_to_once_it_is_idle() -> None:
    results = exactly_once.prove(
        [sys.executable, planted.__file__, "transactional_service"],
        given=planted.GIVEN,
        expect=planted.EXPECT,
        scenarios=[STARTED_AGAIN, killed(END_TXN, CARRIED_OUT)],
        idle_seconds=1.0,
    )
    assert [(result.outcome, result.lives) for result in results] == [
        (ScenarioOutcome.RIGHT, 2),
        (ScenarioOutcome.RIGHT, 2),
    ]
