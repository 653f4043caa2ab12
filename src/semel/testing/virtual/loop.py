"""An asyncio event loop with virtual time.

When callbacks are ready they run, and no time passes. When none is ready, time jumps to the next timer. When there is
no timer either, nothing can ever happen again: this is a deadlock, and the run ends with an error that lists the
pending tasks. So a day of timeouts takes milliseconds, and the order of events depends only on the code and its seed:

- timers that are due at the same instant fire in the order in which they were set;
- tasks are named and hashed by their number within the loop, so that even a set of tasks has one order;
- operations that depend on the outside world (sockets, threads, subprocesses, signals) raise an error.

An exception that reaches the loop, which asyncio would only log, fails the run.

All code that schedules something belongs to a ``Process`` (inherited through contextvars, like asyncio's context). A
process can be paused or killed. Nothing of a killed process runs, no ``finally`` and no timer, as after ``kill -9``.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
import itertools
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from enum import Enum
from typing import Any, Final, NoReturn, TypeVar, TypeVarTuple

from semel.errors import SemelError

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


class DeadlockError(SemelError):
    """No callback is ready and no timer is set: nothing can ever happen."""


class LivelockError(SemelError):
    """The run reached its limit of virtual time or of steps."""


class ProcessState(Enum):
    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


class Process:
    """A simulated process: the owner of callbacks and tasks."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = ProcessState.RUNNING
        self._held: list[asyncio.Handle] = []


_JUMP_S_MAX: Final = 86_400.0
_CANCELLED_TIMERS_MAX: Final = 50  # More than these are removed from the heap.

_process: Final[contextvars.ContextVar[Process | None]] = contextvars.ContextVar("process", default=None)


class VirtualLoop(asyncio.BaseEventLoop):
    # Attributes of asyncio.BaseEventLoop that the type stubs do not have.
    _ready: deque[asyncio.Handle]
    _stopping: bool
    _clock_resolution: float
    _timer_cancelled_count: int

    def __init__(self, *, duration_s_max: float = 7 * 86_400.0, steps_max: int = 10_000_000) -> None:
        super().__init__()
        self._now = 0.0
        self._steps = 0
        self._duration_s_max = duration_s_max
        self._steps_max = steps_max
        self._timers: list[tuple[float, int, _Timer]] = []  # A heap. Comparing tuples calls no Python code.
        self._thread = threading.get_ident()
        self._numbers = itertools.count(1)
        self._tasks: weakref.WeakValueDictionary[int, _Task] = weakref.WeakValueDictionary()
        self._abandoned: list[_Task] = []
        self._interrupted: set[Process] = set()  # Paused or dead ones; empty in most runs: call_soon is fast.
        self._unhandled: list[BaseException] = []
        self._winding_down = False

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run ``main`` to its end, cancel the tasks that are left, oldest first, and close the loop."""
        try:
            result = self.run_until_complete(main)
            self._raise_unhandled()
        finally:
            self._wind_down()
            self.close()
        return result

    def time(self) -> float:
        return self._now

    @property
    def steps(self) -> int:
        """The number of turns of the loop so far."""
        return self._steps

    # -- processes ----------------------------------------------------------------------------------------------------

    def start(self, process: Process, main: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
        """Start a task that belongs to ``process``, as will all tasks and timers that it starts itself."""
        context = contextvars.copy_context()
        context.run(_process.set, process)
        task: asyncio.Task[T] = self.create_task(main, name=name, context=context)
        return task

    def pause(self, process: Process) -> None:
        """Stop running the callbacks and timers of the process; timers that become due meanwhile fire on ``resume``."""
        if process.state is not ProcessState.RUNNING:
            raise ValueError(f"process {process.name} cannot be paused: it is {process.state.value}")
        process.state = ProcessState.PAUSED
        self._interrupted.add(process)
        process._held = self._taken_from_queues(process)

    def resume(self, process: Process) -> None:
        if process.state is not ProcessState.PAUSED:
            raise ValueError(f"process {process.name} cannot be resumed: it is {process.state.value}")
        process.state = ProcessState.RUNNING
        self._interrupted.discard(process)
        for handle in process._held:
            if handle.cancelled():
                continue
            if isinstance(handle, _Timer):
                self._push(handle)
            else:
                self._ready.append(handle)
        process._held = []

    def kill(self, process: Process) -> None:
        """Kill the process: nothing of it runs from now on, except the code that is on the stack at this moment."""
        # References are kept until the run ends: if the tasks were collected now, their `finally` blocks would run.
        self._abandoned += [task for task in self._pending_tasks() if task.process is process]
        for handle in process._held + self._taken_from_queues(process):
            handle.cancel()
        process._held = []
        process.state = ProcessState.DEAD
        self._interrupted.add(process)

    def _taken_from_queues(self, process: Process) -> list[asyncio.Handle]:
        ready = []
        for index, handle in enumerate(tuple(self._ready)):
            if _owner(handle) is process:
                ready.append(handle)
                # _run_once counts the ready callbacks before it runs them, so the queue must not become shorter.
                self._ready[index] = self._nothing()
        taken = sorted(entry for entry in self._timers if _owner(entry[2]) is process and not entry[2].cancelled())
        if taken:
            self._timers = [entry for entry in self._timers if _owner(entry[2]) is not process or entry[2].cancelled()]
            heapq.heapify(self._timers)
        timers = [timer for _, _, timer in taken]
        for timer in timers:
            timer._scheduled = False
        return [*ready, *timers]

    def _nothing(self) -> asyncio.Handle:
        handle = asyncio.Handle(lambda: None, [], self)
        handle.cancel()
        return handle

    # -- asyncio's interface ------------------------------------------------------------------------------------------

    def call_soon(
        self, callback: Callable[[*Arguments], object], *args: *Arguments, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        self._check_closed()  # type: ignore[attr-defined]
        handle = asyncio.Handle(callback, args, self, context)
        process = _owner(handle) if self._interrupted else None
        if process is not None and process.state is not ProcessState.RUNNING:
            self._set_aside(handle, process)
        else:
            self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Arguments], object], *args: *Arguments, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        if threading.get_ident() != self._thread:
            raise RuntimeError("a virtual loop lives in one thread: use VirtualWorker in place of a thread")
        return self.call_soon(callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        self._check_closed()  # type: ignore[attr-defined]
        timer = _Timer(when, callback, args, self, context)
        timer.number = next(self._numbers)
        process = _owner(timer) if self._interrupted else None
        if process is not None and process.state is not ProcessState.RUNNING:
            self._set_aside(timer, process)
        else:
            self._push(timer)
        return timer

    def create_task(
        self, coro: Any, *, name: object = None, context: contextvars.Context | None = None, **_: Any
    ) -> Any:
        self._check_closed()  # type: ignore[attr-defined]
        number = next(self._numbers)
        process = _process.get() if context is None else context.get(_process)
        task = _Task(number, process, coro, loop=self, name=name or f"task-{number}", context=context)
        self._tasks[number] = task
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._winding_down:
            return
        handle, task = context.get("handle"), context.get("task") or context.get("future")
        if handle is not None:
            process = _owner(handle)
        else:
            process = task.process if isinstance(task, _Task) else _process.get()
        if process is not None and process.state is ProcessState.DEAD:
            return
        error = context.get("exception") or RuntimeError(context["message"])
        error.add_note(f"reached the event loop at {self._now:.6f} s: {context['message']}")
        self._unhandled.append(error)

    def _run_once(self) -> None:
        """Run one turn of the loop: the ready callbacks. If none is ready, time jumps to the next timer first."""
        self._raise_unhandled()
        self._steps += 1
        if self._steps > self._steps_max:
            raise LivelockError(f"no end after {self._steps_max} steps, at {self._now:.6f} s{self._waiting()}")
        self._drop_cancelled_timers()
        timers, ready = self._timers, self._ready
        if not ready and not self._stopping:
            if not timers:
                raise DeadlockError(f"deadlock: nothing can ever happen after {self._now:.6f} s{self._waiting()}")
            self._now += min(max(0.0, timers[0][0] - self._now), _JUMP_S_MAX)
            if self._now > self._duration_s_max:
                raise LivelockError(f"no end after {self._duration_s_max} virtual seconds{self._waiting()}")
        due = self._now + self._clock_resolution
        while timers and timers[0][0] < due:
            timer = heapq.heappop(timers)[2]
            timer._scheduled = False
            ready.append(timer)
        for _ in range(len(ready)):  # Callbacks that these schedule run in the next turn.
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def _drop_cancelled_timers(self) -> None:
        timers = self._timers
        if self._timer_cancelled_count > max(_CANCELLED_TIMERS_MAX, len(timers) // 2):
            for _, _, timer in timers:
                timer._scheduled = not timer._cancelled
            timers = self._timers = [entry for entry in timers if entry[2]._scheduled]
            heapq.heapify(timers)
            self._timer_cancelled_count = 0
        while timers and timers[0][2]._cancelled:
            self._timer_cancelled_count -= 1
            heapq.heappop(timers)[2]._scheduled = False

    def _write_to_self(self) -> None:
        pass

    def _push(self, timer: _Timer) -> None:
        heapq.heappush(self._timers, (timer._when, timer.number, timer))
        timer._scheduled = True

    def _set_aside(self, handle: asyncio.Handle, process: Process) -> None:
        if process.state is ProcessState.DEAD:
            handle.cancel()
        else:
            process._held.append(handle)

    # -- the end ------------------------------------------------------------------------------------------------------

    def _pending_tasks(self) -> list[_Task]:
        return [task for _, task in sorted(self._tasks.items()) if not task.done()]

    def _raise_unhandled(self) -> None:
        if self._unhandled:
            raise self._unhandled.pop(0)

    def _waiting(self) -> str:
        tasks = self._pending_tasks()
        return (
            "; pending tasks:" + "".join(f"\n  {_describe(task)}" for task in tasks)
            if tasks
            else "; no task is pending"
        )

    def _wind_down(self) -> None:
        self._winding_down = True
        self._duration_s_max = float("inf")
        self._steps_max = self._steps + 100_000
        self._interrupted.clear()
        abandoned, self._abandoned = self._abandoned, []
        for task in abandoned:
            # The task cannot be cancelled, because its next step may have been dropped with the process. Its coroutine
            # can be closed.
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            with contextlib.suppress(BaseException):
                task.get_coro().close()
        tasks = [task for task in self._pending_tasks() if task not in abandoned]
        for task in tasks:
            task.cancel()
        # A task that does not end when it is cancelled must not hide the error with which the run ended.
        with contextlib.suppress(DeadlockError, LivelockError):
            if tasks:
                self.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self.run_until_complete(self.shutdown_asyncgens())

    # -- operations that a simulation does not have -------------------------------------------------------------------

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            "a virtual loop has no sockets, threads, subprocesses or signals: "
            "hand in VirtualNetwork, VirtualWorker and VirtualDisk instead"
        )

    run_in_executor = _refuse  # type: ignore[assignment]
    add_reader = add_writer = _refuse  # type: ignore[assignment]
    add_signal_handler = _refuse  # type: ignore[assignment]
    getaddrinfo = getnameinfo = subprocess_shell = subprocess_exec = _refuse
    create_connection = create_server = create_datagram_endpoint = create_unix_connection = _refuse
    create_unix_server = connect_accepted_socket = connect_read_pipe = connect_write_pipe = start_tls = _refuse
    sock_recv = sock_recv_into = sock_recvfrom = sock_sendall = sock_sendto = sock_connect = sock_accept = _refuse


class _Timer(asyncio.TimerHandle):
    """A timer with a number: timers that are due at the same instant fire in the order in which they were set."""

    __slots__ = ("number",)
    number: int
    # Attributes of asyncio.TimerHandle that the type stubs do not have.
    _when: float
    _cancelled: bool
    _scheduled: bool


class _Task(asyncio.Task[Any]):
    """A task with a number. Its hash is the number, so that a set of tasks (asyncio keeps some) has one order."""

    def __init__(self, number: int, process: Process | None, coro: Any, **kwargs: Any) -> None:
        self.number = number
        self.process = process
        super().__init__(coro, **kwargs)

    def __hash__(self) -> int:
        return self.number


def _owner(handle: asyncio.Handle) -> Process | None:
    context: contextvars.Context = handle._context  # type: ignore[attr-defined]
    return context.get(_process)


def _describe(task: asyncio.Task[Any]) -> str:
    """Return the task's name and the innermost line at which it is suspended."""
    place = "not started"
    awaited: Any = task.get_coro()
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None)
        if frame is not None:
            place = f"{frame.f_code.co_qualname}, {os.path.basename(frame.f_code.co_filename)} line {frame.f_lineno}"
        awaited = getattr(awaited, "cr_await", None)
    return f"{task.get_name()} at {place}"
