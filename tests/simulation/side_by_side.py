"""Simulations on all processors at once: a run is one thread's work, and one knows nothing of another."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import traceback
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, Protocol, TypeVar, cast

import pytest

from semel.testing import simulation
from semel.testing.simulation import Scenario
from tests.memory import GARBAGE_THRESHOLD

T = TypeVar("T")
Fault = TypeVar("Fault", bound=StrEnum)
T_co = TypeVar("T_co", covariant=True)


class Job(Hashable, Protocol[T_co]):
    """Work for another process: it and what it returns can be pickled."""

    def __call__(self) -> T_co: ...


@dataclass(frozen=True, slots=True)
class Run(Generic[T]):
    """One seed of one scenario."""

    scenario: Scenario[T]
    seed: int

    def __call__(self) -> T:
        return simulation.run(self.scenario, seed=self.seed)

    def __str__(self) -> str:
        return str(self.seed)


class Failed(AssertionError):
    """What the other process raised, as a text: not every exception survives the way."""


class SideBySide(Generic[T]):
    """What is expected is started in this order; whatever else is asked for, behind it."""

    def __init__(self, pool: ProcessPoolExecutor, expected: Iterable[Job[T]]) -> None:
        self._pool = pool
        self._results: dict[Job[T], Future[T]] = {}
        for job in expected:
            self._start(job)

    def result(self, job: Job[T]) -> T:
        """What the job returned. Raises Failed, with all that its process would have printed."""
        if job not in self._results:
            self._start(job)
        return self._results[job].result()

    def _start(self, job: Job[T]) -> None:
        self._results[job] = self._pool.submit(_perform, job)


def side_by_side_of(request: pytest.FixtureRequest) -> Iterator[SideBySide[T]]:
    """A module's fixture: all the jobs that its selected tests have as the parameter ``job``, under way."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function) and item.path == request.path]
    jobs = [item.callspec.params.get("job") for item in items if hasattr(item, "callspec")]
    # Not forked: the process that tests run in has threads of its own.
    pool = ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn"), initializer=_prepare)
    try:
        yield SideBySide[T](pool, cast(list[Job[T]], [job for job in jobs if job is not None]))
    finally:
        pool.shutdown(cancel_futures=True)


def assert_none_was_spared(
    side_by_side: SideBySide[Counter[Fault]], runs: Iterable[Run[Counter[Fault]]], faults: Iterable[Fault]
) -> None:
    """What the runs prove, they prove about faults that have struck, and more than once or twice."""
    struck: Counter[Fault] = Counter()
    for run in runs:
        struck.update(side_by_side.result(run))
    rare = {str(fault): struck[fault] for fault in faults if struck[fault] < 3}
    assert not rare, f"too few to say anything: {rare}"


def _perform(job: Job[T]) -> T:
    try:
        return job()
    except BaseException as error:
        raise Failed("".join(traceback.format_exception(error))) from None


def _prepare() -> None:
    # A quarter of the time would go into lines that are not read; the command that replays a failure prints them.
    logging.disable(logging.CRITICAL)
    gc.set_threshold(GARBAGE_THRESHOLD)
