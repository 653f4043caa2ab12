"""The worker's contract, on a thread and in virtual time, and what only the virtual one can show."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from semel.log.worker import ThreadWorker, Worker
from semel.testing.virtual.crash import SimulatedCrash
from semel.testing.virtual.disk import VirtualDisk
from semel.testing.virtual.latency import constant_ms
from semel.testing.virtual.loop import VirtualLoop
from semel.testing.virtual.worker import VirtualWorker

Scenario = Callable[[Worker], Coroutine[Any, Any, Any]]


def on_a_thread(scenario: Scenario) -> Any:
    async def main() -> Any:
        return await scenario(ThreadWorker(asyncio.get_running_loop(), "test"))

    return asyncio.run(main())


def in_virtual_time(scenario: Scenario) -> Any:
    loop = VirtualLoop()
    return loop.run(scenario(VirtualWorker(loop, Random(3))))


both = pytest.mark.parametrize("run", [on_a_thread, in_virtual_time])


@both
def test_work_is_done_and_told_in_the_order_submitted(run: Callable[[Scenario], Any]) -> None:
    async def scenario(worker: Worker) -> tuple[list[int], list[object]]:
        worked: list[int] = []
        told: list[object] = []
        finished = asyncio.Event()

        def work(number: int) -> int:
            worked.append(number)
            return number * 10

        def done(result: object) -> None:
            told.append(result)
            if len(told) == 20:
                finished.set()

        for number in range(20):
            worker.run(lambda number=number: work(number), done)  # type: ignore[misc]
        await finished.wait()
        worker.stop()
        return worked, told

    assert run(scenario) == (list(range(20)), [number * 10 for number in range(20)])


@both
def test_an_exception_is_handed_over_like_a_result(run: Callable[[Scenario], Any]) -> None:
    async def scenario(worker: Worker) -> object:
        told: asyncio.Future[object] = asyncio.get_running_loop().create_future()

        def work() -> None:
            raise OSError(5, "the disk is gone")

        worker.run(work, told.set_result)
        result = await told
        worker.stop()
        return result

    assert repr(run(scenario)) == "OSError(5, 'the disk is gone')"


@both
def test_done_is_never_called_before_run_returns(run: Callable[[Scenario], Any]) -> None:
    async def scenario(worker: Worker) -> list[str]:
        log: list[str] = []
        finished = asyncio.Event()

        def done(result: object) -> None:
            log.append("done")
            finished.set()

        worker.run(lambda: None, done)
        log.append("returned")
        await finished.wait()
        worker.stop()
        return log

    assert run(scenario) == ["returned", "done"]


@both
def test_stop_finishes_what_was_submitted(run: Callable[[Scenario], Any]) -> None:
    async def scenario(worker: Worker) -> tuple[list[int], list[object]]:
        worked: list[int] = []
        told: list[object] = []
        finished = asyncio.Event()
        for number in range(5):
            worker.run(lambda number=number: worked.append(number), told.append)  # type: ignore[misc]
        worker.run(lambda: None, lambda result: finished.set())
        worker.stop()
        at_stop = list(worked)
        await finished.wait()
        return at_stop, told

    assert run(scenario) == ([0, 1, 2, 3, 4], [None] * 5)


def test_virtual_time_passes_before_the_work_and_before_it_is_told() -> None:
    async def main(loop: VirtualLoop) -> tuple[float, float]:
        told: asyncio.Future[float] = loop.create_future()
        VirtualWorker(loop, Random(1)).run(loop.time, told.set_result)  # type: ignore[arg-type]
        return await told, loop.time()

    loop = VirtualLoop()
    worked_at, told_at = loop.run(main(loop))
    assert 0 < worked_at < told_at


def test_nothing_runs_and_nobody_is_told_after_kill() -> None:
    for kill_after_ms in range(12):

        async def main(loop: VirtualLoop, kill_after_ms: int = kill_after_ms) -> tuple[int, int]:
            log: list[object] = []
            worker = VirtualWorker(loop, Random(5), hop_ms=constant_ms(1.5))
            for _ in range(5):
                worker.run(lambda: log.append("worked"), log.append)
            await asyncio.sleep(kill_after_ms / 1000)
            worker.kill()
            before = len(log)
            await asyncio.sleep(10)
            return before, len(log)

        loop = VirtualLoop()
        before, after = loop.run(main(loop))
        assert before == after


def test_a_worker_that_was_stopped_takes_no_more_work() -> None:
    with contextlib.closing(VirtualLoop()) as loop:
        worker = VirtualWorker(loop, Random(1))
        worker.stop()
        with pytest.raises(RuntimeError, match="work was submitted to a worker that was stopped"):
            worker.run(int, lambda result: None)


def test_a_crash_within_the_work_is_told_to_nobody() -> None:
    disk = VirtualDisk()
    file = disk.open("/a", create=True)
    disk.crash_after(2)
    told: list[object] = []

    async def main(loop: VirtualLoop) -> None:
        worker = VirtualWorker(loop, Random(1))
        worker.run(lambda: file.write(0, b"x"), told.append)
        worker.run(file.sync, told.append)
        worker.run(file.size, told.append)
        await asyncio.sleep(10)

    loop = VirtualLoop()
    with pytest.raises(SimulatedCrash, match="died in sync of /a"):
        loop.run(main(loop))
    assert told in ([], [None])


class Seconds:
    """A clock that moves when told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def where_brief_work_is_done(takes_s: list[float]) -> list[bool]:
    """For each piece of work, one after the other: whether the loop did it itself."""

    async def main() -> list[bool]:
        clock = Seconds()
        worker = ThreadWorker(asyncio.get_running_loop(), "test", monotonic_s=clock)
        here = threading.get_ident()
        places: list[bool] = []
        for seconds in takes_s:
            told: asyncio.Future[object] = asyncio.get_running_loop().create_future()

            def work(seconds: float = seconds) -> None:
                clock.now += seconds
                places.append(threading.get_ident() == here)

            worker.run(work, told.set_result, brief=True)
            assert not told.done(), "it was told before run returned"
            await told
        worker.stop()
        return places

    return asyncio.run(main())


def test_the_loop_does_brief_work_itself_once_it_has_been_quick_for_a_while() -> None:
    places = where_brief_work_is_done([0.0001] * 300)
    assert not any(places[:50])
    assert all(places[200:])


def test_a_disk_that_is_not_quick_never_keeps_the_loop_waiting() -> None:
    assert not any(where_brief_work_is_done([0.001] * 300))


def test_one_stall_gives_the_work_back_to_the_thread_for_a_while() -> None:
    places = where_brief_work_is_done([*[0.0001] * 300, 0.05, *[0.0001] * 400])
    assert places[300], "nobody knew that it would take long"
    assert not any(places[301:350])
    assert all(places[600:])


def test_what_is_done_at_once_is_not_told_before_what_was_submitted_earlier() -> None:
    async def main() -> list[str]:
        clock = Seconds()
        loop = asyncio.get_running_loop()
        worker = ThreadWorker(loop, "test", monotonic_s=clock)
        for _ in range(300):  # No time passes: it is a quick one.
            one: asyncio.Future[object] = loop.create_future()
            worker.run(lambda: None, one.set_result, brief=True)
            await one
        told: list[str] = []
        last: asyncio.Future[object] = loop.create_future()
        worker.run(lambda: "long", lambda result: told.append(str(result)))
        worker.run(lambda: "brief", lambda result: told.append(str(result)), brief=True)
        worker.run(lambda: "last", last.set_result)
        await last
        worker.stop()
        return told

    assert asyncio.run(main()) == ["long", "brief"]
