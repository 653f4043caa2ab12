"""What a shard knows beside its log: applied with the decision, moved by time, and told when the shard is given up."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Iterator
from typing import Any

from semel.broker.coordinators.shard_runtime import TIMEOUTS_PER_TURN, ShardRuntime
from semel.coordinator.decision import DEFERRED, Answer, Decision, Waiter
from semel.coordinator.moment import Moment
from semel.errors import ErrorCode
from semel.testing.virtual.disk_faults import DiskFault, Operation
from tests.unit.broker.coordinators.shard_bench import SYNC_MS, Bench, Noted, Numbers


class Remembering(Numbers):
    """Numbers that are also noted without a record, requests that wait for one, and deadlines."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[str] = []
        self.waiting: list[Waiter[Any]] = []
        self.due_ms: list[float] = []

    def next_deadline_ms(self) -> float | None:
        return min(self.due_ms, default=None)

    def time_out(self, moment: Moment) -> Iterator[Decision[Any, str, str]]:
        for due_ms in sorted(due_ms for due_ms in self.due_ms if due_ms <= moment.monotonic_ms):
            self.due_ms.remove(due_ms)
            yield Decision(None, records=(f"ticked={len(self.history)}",), effects=("tick",))

    def unload(self) -> list[Waiter[Any]]:
        waiting, self.waiting = self.waiting, []
        return waiting


class Stage(Bench):
    def new_runtime(self) -> ShardRuntime[Any]:
        return ShardRuntime(
            self.partition,
            Remembering(),
            clock=self.clock,
            deadlines=self.deadlines,
            carry_out=lambda runtime, effect: self.told.append(effect),
        )

    @property
    def remembering(self) -> Remembering:
        shard = self.runtime.shard
        assert isinstance(shard, Remembering)
        return shard

    def ask(self, decision: Decision[Any, Any, Any]) -> object:
        return self.runtime.run(lambda shard: decision, self.waiter)

    def defer(self) -> object:
        return self.ask(Decision(DEFERRED, changes=(lambda shard: shard.waiting.append(self.waiter),)))

    def answer(self, response: object) -> Answer:
        """To a request that was deferred before."""
        return Answer(Waiter(lambda told: self.told.append(("deferred", told)), lambda error: error), response)

    def set_deadline(self, delay_ms: float) -> None:
        due_ms = self.clock.monotonic_ms() + delay_ms
        self.ask(Decision(Noted(), changes=(lambda shard: shard.due_ms.append(due_ms),)))
        self.told.clear()


def note(text: str) -> Callable[[Remembering], None]:
    return lambda shard: shard.noted.append(f"{text} after {len(shard.history)} records")


def test_changes_are_applied_after_the_records_and_before_anybody_is_told() -> None:
    stage = Stage()
    stage.ask(Decision(Noted(1), records=("a=1",), changes=(note("x"), note("y"))))
    assert (stage.remembering.noted, stage.told) == (["x after 1 records", "y after 1 records"], [])
    stage.wait()
    assert stage.told == [Noted(1)]


def test_changes_of_a_decision_that_could_not_be_written_never_were() -> None:
    stage = Stage()
    stage.disk.fail(DiskFault(Operation.WRITE, "*/numbers-0/*.log", error=errno.ENOSPC))
    stage.ask(Decision(Noted(1), records=("a=1",), changes=(note("x"),)))
    assert (stage.remembering.noted, stage.told) == ([], [ErrorCode.COORDINATOR_NOT_AVAILABLE])


def test_a_deferred_request_is_not_answered_and_still_waits() -> None:
    stage = Stage()
    assert stage.defer() is not None
    stage.wait()
    assert stage.told == []


def test_a_deferred_request_is_answered_at_once_when_what_it_would_write_cannot_be_written() -> None:
    stage = Stage()
    stage.disk.fail(DiskFault(Operation.WRITE, "*/numbers-0/*.log", error=errno.ENOSPC))
    assert stage.ask(Decision(DEFERRED, records=("a=1",))) is None
    assert stage.told == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_whoever_was_deferred_is_told_once_when_the_shard_is_given_up() -> None:
    stage = Stage()
    stage.defer()
    stage.runtime.retire()
    assert stage.told == [ErrorCode.NOT_COORDINATOR]
    stage.runtime.unload()
    assert stage.told == [ErrorCode.NOT_COORDINATOR]


def test_what_is_decided_is_told_after_the_shard_has_retired() -> None:
    stage = Stage()
    stage.ask(Decision(Noted(1), records=("a=1",), effects=("effect",), answers=(stage.answer("answer"),)))
    stage.runtime.retire()
    stage.wait()
    assert stage.told == ["effect", ("deferred", "answer"), Noted(1)]


def test_answers_of_a_decision_that_is_lost_are_refused_and_its_effects_dropped() -> None:
    """Law 6: a member waits for the answer."""
    stage = Stage()
    stage.ask(Decision(Noted(1), records=("a=1",), effects=("effect",), answers=(stage.answer("answer"),)))
    stage.runtime.unload()
    assert stage.told == [("deferred", ErrorCode.NOT_COORDINATOR), ErrorCode.NOT_COORDINATOR]


def test_time_makes_the_shard_decide_at_its_deadline_and_not_before() -> None:
    stage = Stage()
    stage.set_deadline(200)
    stage.wait(0.199)
    assert stage.remembering.history == []
    stage.wait(0.010)
    assert stage.remembering.history == [(0, "ticked=0")]
    stage.wait()
    assert stage.told == ["tick"]


def test_a_deadline_that_is_nearer_moves_the_timer() -> None:
    stage = Stage()
    stage.set_deadline(10_000)
    stage.set_deadline(100)
    stage.wait(0.2)
    assert len(stage.remembering.history) == 1
    stage.wait(10)
    assert len(stage.remembering.history) == 2


def test_several_deadlines_at_once_are_decided_one_after_the_other() -> None:
    stage = Stage()
    for _ in range(3):
        stage.set_deadline(100)
    stage.wait(0.2)
    assert [record for _, record in stage.remembering.history] == ["ticked=0", "ticked=1", "ticked=2"]


def test_of_very_many_deadlines_at_once_some_are_decided_in_each_turn() -> None:
    stage = Stage()
    many = 5 * TIMEOUTS_PER_TURN + 1
    stage.remembering.due_ms = [stage.clock.monotonic_ms() + 50] * many
    in_a_turn: list[int] = []
    told = 0
    stage.set_deadline(50)
    while told <= many:
        stage.loop.run_until_complete(asyncio.sleep(0.001))
        in_a_turn.append(len(stage.remembering.history) - told)
        told += in_a_turn[-1]
    assert max(in_a_turn) == TIMEOUTS_PER_TURN
    assert told == many + 1, "all of them"


def test_a_shard_that_was_given_up_decides_nothing_when_time_passes() -> None:
    for give_up in (ShardRuntime.retire, ShardRuntime.unload, ShardRuntime.drop):
        stage = Stage()
        stage.set_deadline(100)
        give_up(stage.runtime)
        stage.wait(1)
        assert stage.remembering.history == []


def test_nobody_is_told_before_the_sync_what_time_decided() -> None:
    stage = Stage()
    stage.set_deadline(100)
    stage.wait(0.104)
    stage.wait(SYNC_MS / 4000)
    assert (len(stage.remembering.history), stage.told) == (1, [])
