"""Does the runs of one seed: every target in turn, with sound (valid) and mutated inputs, each judged.

An input is a finding if the decoder raises an unexpected exception, refuses a sound input, breaks its law, takes more
than a second of processor time, or allocates more than four times the input's size plus 1 MiB. Time is always measured,
memory (``tracemalloc``) only in every ``MEMORY_EVERY``-th run, because it makes a run five times as slow.
"""

from __future__ import annotations

import signal
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, repeat
from random import Random
from typing import Any, Final

from tools.fuzz.mutation import mutated
from tools.fuzz.target import Target

MUTANTS: Final = 7
"""The number of mutated inputs made from every sound input."""
MEMORY_EVERY: Final = 97
_MENDED: Final = 0.8
"""The share of mutated inputs whose checksum is corrected, if the target has one."""
SECONDS_MAX: Final = 1.0
MEMORY_FACTOR: Final = 4
MEMORY_FLOOR_BYTES: Final = 2**20
FINDINGS_MAX: Final = 20

TAKEN: Final = "taken"
REFUSED: Final = "refused"


class TooSlow(BaseException):
    """A run took too much processor time. Not an ``Exception``, so that no decoder catches it."""


@dataclass
class Outcome:
    """The result of one seed. ``findings`` has one sentence for each finding, with the input in hexadecimal."""

    runs: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    slowest_ms: int = 0
    slowest: str = ""
    memory_runs: int = 0
    findings: list[str] = field(default_factory=list)
    found_in: Counter[str] = field(default_factory=Counter)

    @property
    def passed(self) -> bool:
        return not self.found_in

    def to_json(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "runs": self.runs,
            **self.answers,
            "slowest_run_ms": self.slowest_ms,
            "slowest_run": self.slowest,
            "memory_runs": self.memory_runs,
            "findings": self.findings,
            "found_in": dict(self.found_in),
        }

    def found(self, target: Target, what: str, data: bytes) -> None:
        self.found_in[target.name] += 1
        if self.found_in[target.name] <= 2 and len(self.findings) < FINDINGS_MAX:
            self.findings.append(f"{target.name}: {what[:300]}; input {data[:400].hex()} ({len(data)} bytes)")


def run_seed(targets: Sequence[Target], seed: int, runs: int, *, seconds_max: float | None = SECONDS_MAX) -> Outcome:
    """Run the targets with the inputs of one seed.

    ``seconds_max`` is the limit of processor time for one input, enforced by a timer in the process's main thread.
    """
    random = Random(f"decoders {seed}")
    outcome = Outcome()
    with _timer(seconds_max):
        for target in targets:
            _warm_up(target, seconds_max)
        for target in _turns(targets, random):
            sound = target.sound(random)
            _judge(target, sound, outcome, seconds_max, is_sound=True)
            other = target.sound(random)
            for _ in range(MUTANTS):
                data = mutated(sound, other, random)
                if target.mended is not None and random.random() < _MENDED:
                    data = target.mended(data)
                _judge(target, data, outcome, seconds_max)
            if outcome.runs >= runs:
                return outcome
    raise AssertionError("there are turns without end")


@cache
def _warm_up(target: Target, seconds_max: float | None) -> None:
    """Use a decoder once without judging it: its first use takes longer, because it imports and compiles."""
    _judge(target, target.sound(Random(0)), Outcome(), seconds_max)


def _judge(target: Target, data: bytes, outcome: Outcome, seconds_max: float | None, *, is_sound: bool = False) -> None:
    outcome.runs += 1
    measures_memory = outcome.runs % MEMORY_EVERY == 0
    if measures_memory:
        outcome.memory_runs += 1
        tracemalloc.start()
    started = time.process_time_ns()
    answer = _answer(target, data, outcome, seconds_max, is_sound)
    took_ms = (time.process_time_ns() - started) // 1_000_000
    if measures_memory:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        bound = MEMORY_FACTOR * len(data) + MEMORY_FLOOR_BYTES + target.unpacked_bytes_max
        if peak > bound:
            outcome.found(target, f"{peak} bytes allocated; the limit is {bound}", data)
    elif took_ms > outcome.slowest_ms:
        outcome.slowest_ms, outcome.slowest = took_ms, target.name
    outcome.answers[answer] += 1


def _answer(target: Target, data: bytes, outcome: Outcome, seconds_max: float | None, is_sound: bool) -> str:
    try:
        if seconds_max is not None:
            signal.setitimer(signal.ITIMER_VIRTUAL, seconds_max)
        try:
            target.check(data)
        finally:
            if seconds_max is not None:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    except target.refusals as error:
        if is_sound and target.is_served:
            outcome.found(target, f"a sound input is refused: {error}", data)
        return REFUSED
    except TooSlow:
        outcome.found(target, f"more than {seconds_max} s", data)
        return "too slow"
    except Exception as error:
        outcome.found(target, f"{type(error).__name__}: {error}", data)
        return "raised"
    return TAKEN


def _turns(targets: Sequence[Target], random: Random) -> Iterator[Target]:
    turns = list(chain.from_iterable(repeat(target, target.rounds) for target in targets))
    while True:
        random.shuffle(turns)
        yield from turns


@contextmanager
def _timer(seconds_max: float | None) -> Iterator[None]:
    """Let ``TooSlow`` be raised when the timer fires. It counts processor time, so other processes do not matter."""
    if seconds_max is None:
        yield
        return

    def too_slow(*_: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGVTALRM, too_slow)
    try:
        yield
    finally:
        signal.signal(signal.SIGVTALRM, before)
