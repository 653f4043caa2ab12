"""Virtual time, and the laws of a loop in which nothing is left to chance."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from semel.testing.virtual.crash import SimulatedCrash
from semel.testing.virtual.loop import DeadlockError, LivelockError, Process, VirtualLoop


def run(main: Coroutine[Any, Any, Any], **limits: Any) -> Any:
    return VirtualLoop(**limits).run(main)


def run_with_loop(main: Callable[[VirtualLoop], Coroutine[Any, Any, Any]]) -> Any:
    loop = VirtualLoop()
    return loop.run(main(loop))


def test_a_day_of_sleep_takes_no_time_and_ends_a_day_later() -> None:
    async def main() -> float:
        await asyncio.sleep(86_400)
        return asyncio.get_running_loop().time()

    assert run(main()) == 86_400.0


def test_time_stands_still_while_anything_is_ready() -> None:
    async def main() -> float:
        for _ in range(1000):
            await asyncio.sleep(0)
        return asyncio.get_running_loop().time()

    assert run(main()) == 0.0


def test_timers_of_one_instant_fire_in_the_order_they_were_set() -> None:
    async def main() -> list[int]:
        fired: list[int] = []
        loop = asyncio.get_running_loop()
        for number in range(50):
            loop.call_at(1.0, fired.append, number)
        await asyncio.sleep(2)
        return fired

    assert run(main()) == list(range(50))


def test_a_timeout_is_as_long_as_it_says() -> None:
    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.sleep(31)
        return asyncio.get_running_loop().time()

    assert run(main()) == 30.0


def test_a_deadlock_is_an_error_that_says_who_waits_and_where() -> None:
    async def reader() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        await asyncio.create_task(reader(), name="the reader")

    with pytest.raises(DeadlockError, match=r"(?s)deadlock: nothing can ever happen.*the reader at .*line \d+"):
        run(main())


@pytest.mark.parametrize(
    ("pause_s", "limit", "message"),
    [
        pytest.param(60, {"duration_s_max": 3600.0}, "no end after 3600.0 virtual seconds", id="virtual time"),
        pytest.param(0, {"steps_max": 1000}, "no end after 1000 steps", id="steps, where no time passes"),
    ],
)
def test_a_wait_that_never_ends_reaches_a_limit(pause_s: float, limit: dict[str, Any], message: str) -> None:
    async def main() -> None:
        while True:
            await asyncio.sleep(pause_s)

    with pytest.raises(LivelockError, match=message):
        run(main(), **limit)


def test_an_exception_in_a_callback_fails_the_run() -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_soon(int, "not a number")
        await asyncio.sleep(1)

    with pytest.raises(ValueError, match="not a number"):
        run(main())


def test_an_exception_in_a_task_that_nobody_awaits_fails_the_run() -> None:
    async def broken() -> None:
        raise ValueError("nobody looks")

    async def main() -> None:
        task = asyncio.create_task(broken())
        await asyncio.sleep(1)
        del task
        await asyncio.sleep(1)

    with pytest.raises(ValueError, match="nobody looks"):
        run(main())


async def wait(number: int, ended: list[int]) -> None:
    """Wait for what never comes, and tell when that ends."""
    try:
        await asyncio.Event().wait()
    finally:
        ended.append(number)


def test_what_is_left_at_the_end_is_cancelled_oldest_first() -> None:
    ended: list[int] = []

    async def main() -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(wait(number, ended)) for number in range(20)]
        await asyncio.sleep(0)
        return tasks

    run(main())
    assert ended == list(range(20))


def test_a_task_group_cancels_in_the_order_of_creation() -> None:
    """asyncio keeps these tasks in a set, whose order would be that of memory addresses."""

    async def main() -> list[int]:
        ended: list[int] = []

        async def fail() -> None:
            await asyncio.sleep(1)
            raise KeyError("group")

        async def together() -> None:
            async with asyncio.TaskGroup() as group:
                for number in range(30):
                    group.create_task(wait(number, ended))
                group.create_task(fail())

        with pytest.raises(ExceptionGroup):
            await together()
        return ended

    assert run(main()) == list(range(30))


def test_call_soon_threadsafe_works_from_the_loops_own_thread_only() -> None:
    async def main() -> list[object]:
        loop = asyncio.get_running_loop()
        seen: list[object] = []
        loop.call_soon_threadsafe(seen.append, "same thread")

        def elsewhere() -> None:
            try:
                loop.call_soon_threadsafe(seen.append, "other thread")
            except RuntimeError as error:
                seen.append(str(error))

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        await asyncio.sleep(0)
        return seen

    refusal = "a virtual loop lives in one thread: use VirtualWorker in place of a thread"
    assert sorted(map(str, run(main()))) == [refusal, "same thread"]


@pytest.mark.parametrize(
    "call",
    [
        lambda loop: loop.run_in_executor(None, int),
        lambda loop: loop.create_connection(asyncio.Protocol, "localhost", 1),
        lambda loop: loop.create_server(asyncio.Protocol, "localhost", 1),
        lambda loop: loop.subprocess_exec(asyncio.SubprocessProtocol, "true"),
        lambda loop: loop.getaddrinfo("localhost", 1),
        lambda loop: loop.add_reader(0, int),
    ],
)
def test_the_outside_world_is_refused(call: Any) -> None:
    async def main() -> None:
        with pytest.raises(RuntimeError, match="a virtual loop has no sockets, threads, subprocesses or signals"):
            await call(asyncio.get_running_loop())

    run(main())


def ticking(log: list[float]) -> Coroutine[Any, Any, None]:
    async def main() -> None:
        while True:
            await asyncio.sleep(1)
            log.append(asyncio.get_running_loop().time())

    return main()


async def kill_after_a_second(loop: VirtualLoop, victim: Coroutine[Any, Any, None]) -> None:
    process = Process("victim")
    loop.start(process, victim)
    await asyncio.sleep(1)
    loop.kill(process)


def test_nothing_of_a_killed_process_runs_not_even_finally() -> None:
    log: list[str] = []

    async def victim(loop: VirtualLoop) -> None:
        loop.call_later(2, log.append, "timer")
        try:
            await asyncio.sleep(3)
        finally:
            log.append("finally")

    async def main(loop: VirtualLoop) -> list[str]:
        await kill_after_a_second(loop, victim(loop))
        await asyncio.sleep(10)
        return list(log)

    assert run_with_loop(main) == []


def test_a_killed_process_is_not_woken_by_a_future_that_others_complete() -> None:
    async def main(loop: VirtualLoop) -> list[str]:
        woken: list[str] = []
        future = loop.create_future()

        async def victim() -> None:
            await future
            woken.append("victim")

        await kill_after_a_second(loop, victim())
        future.set_result(None)
        await asyncio.sleep(1)
        return list(woken)

    assert run_with_loop(main) == []


def test_a_process_may_be_killed_among_callbacks_that_are_ready_to_run() -> None:
    async def main(loop: VirtualLoop) -> list[str]:
        process = Process("victim")
        log: list[str] = []

        async def victim() -> None:
            for _ in range(3):
                loop.call_soon(log.append, "dead")
            loop.call_soon(log.append, "dead too")

        loop.start(process, victim())
        await asyncio.sleep(0)
        loop.kill(process)
        loop.call_soon(log.append, "alive")
        await asyncio.sleep(1)
        return log

    assert run_with_loop(main) == ["alive"]


def test_a_crash_ends_its_process_and_not_the_run() -> None:
    async def main(loop: VirtualLoop) -> str:
        process = Process("victim")

        def crash() -> None:
            loop.kill(process)
            raise SimulatedCrash("in a callback")

        async def victim() -> None:
            loop.call_later(1, crash)

        loop.start(process, victim())
        await asyncio.sleep(2)
        return "went on"

    assert run_with_loop(main) == "went on"


def test_a_crash_outside_any_process_reaches_the_test() -> None:
    def crash() -> None:
        raise SimulatedCrash("nobody else's")

    async def main() -> None:
        asyncio.get_running_loop().call_soon(crash)
        await asyncio.sleep(1)

    with pytest.raises(SimulatedCrash, match="nobody else's"):
        run(main())


def test_a_paused_process_misses_its_timers_and_catches_up_in_order() -> None:
    async def main(loop: VirtualLoop) -> tuple[list[float], list[float]]:
        process = Process("sleeper")
        ticks: list[float] = []
        loop.start(process, ticking(ticks))
        await asyncio.sleep(2.5)
        loop.pause(process)
        await asyncio.sleep(10)
        before = list(ticks)
        loop.resume(process)
        await asyncio.sleep(1.1)
        return before, ticks[len(before) :]

    assert run_with_loop(main) == ([1.0, 2.0], [12.5, 13.5])


def test_a_timer_that_is_cancelled_during_the_pause_does_not_fire() -> None:
    async def main(loop: VirtualLoop) -> list[str]:
        process = Process("sleeper")
        log: list[str] = []
        timers: list[asyncio.TimerHandle] = []

        async def sleeper() -> None:
            timers.append(loop.call_later(2, log.append, "cancelled"))
            loop.call_later(2, log.append, "kept")

        loop.start(process, sleeper())
        await asyncio.sleep(1)
        loop.pause(process)
        timers[0].cancel()
        await asyncio.sleep(5)
        loop.resume(process)
        await asyncio.sleep(1)
        return log

    assert run_with_loop(main) == ["kept"]


def test_what_was_ready_when_a_process_was_paused_runs_once_when_it_is_resumed() -> None:
    async def main(loop: VirtualLoop) -> tuple[list[int], list[int]]:
        process = Process("sleeper")
        log: list[int] = []

        async def sleeper() -> None:
            for number in range(3):
                loop.call_soon(log.append, number)

        loop.start(process, sleeper())
        await asyncio.sleep(0)
        loop.pause(process)
        await asyncio.sleep(5)
        before = list(log)
        loop.resume(process)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return before, log

    assert run_with_loop(main) == ([], [0, 1, 2])
