"""The lives of an application. A life is one process of it, which can be killed, stopped and continued.

An application is a function that another process can import, or a command. A function that cannot be sent to another
process (a lambda, a closure) is called in this one: its requests can be faulted, but it cannot be killed.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from semel.errors import StateError

Function: TypeAlias = Callable[[str], None]
"""One life of an application. It takes the bootstrap servers, and returns when all input is processed."""

SERVERS_VARIABLES: Final = ("SEMEL_BOOTSTRAP_SERVERS", "KAFKA_BOOTSTRAP_SERVERS", "BOOTSTRAP_SERVERS")
"""The environment variables from which a command gets the bootstrap servers. They also replace ``{servers}`` in its
arguments."""

_TAIL_BYTES: Final = 4096
_INTERRUPTING: Final = (signal.SIGINT, signal.SIGTERM)


class Life(Protocol):
    def kill(self) -> None:
        """Kill the process and the processes that it has started with SIGKILL."""

    def stop(self) -> None: ...

    def resume(self) -> None: ...

    def terminate(self) -> None:
        """Ask the process to end, with SIGTERM."""

    @property
    def died_of(self) -> str | None:
        """The error or signal that ended the life; ``None`` if it ended by itself and without an error."""


Ended: TypeAlias = Callable[[Life], object]
"""Called from any thread when the life has ended."""


class Application(Protocol):
    @property
    def can_be_killed(self) -> bool: ...

    def start(self, servers: str, output: Path, ended: Ended) -> Life:
        """Start a life that connects to ``servers``. ``output`` is the file for its stdout and stderr."""


def application_of(application: Function | Sequence[str]) -> Application:
    if not hasattr(os, "killpg"):
        raise StateError(
            "prove: it needs the signals of POSIX, to kill, stop and continue a process; there are none here"
        )
    if not callable(application):
        return Program(application)
    try:
        pickle.dumps(application)
    except Exception:
        return LocalFunction(application)
    return ProcessFunction(application)


@contextlib.contextmanager
def deferred_signals() -> Iterator[None]:
    """Defer SIGINT and SIGTERM: their handlers, which may raise, are called when the ``with`` block ends.

    The signals are not blocked, because a process that is started would inherit the signal mask. In threads other than
    the main one nothing is done, because handlers do not interrupt them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    earlier = {number: signal.signal(number, lambda number, _: came.append(number)) for number in _INTERRUPTING}
    try:
        yield
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
        for first in came[:1]:
            signal.raise_signal(first)


class Program:
    """An application that is a command, in any language."""

    can_be_killed = True

    def __init__(self, command: Sequence[str]) -> None:
        if not command:
            raise ValueError("the command of the application is empty")
        self._command = list(command)

    def start(self, servers: str, output: Path, ended: Ended) -> Life:
        command = [argument.replace("{servers}", servers) for argument in self._command]
        with output.open("wb") as file:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**os.environ, **dict.fromkeys(SERVERS_VARIABLES, servers)},
                start_new_session=True,
            )
        return _ProcessLife(process.pid, process.wait, output, ended)


class ProcessFunction:
    """An application that is a function, called in a process of its own.

    The processes are forks of a fork server, which has no threads. It has imported the client once, so that a life
    starts within milliseconds.
    """

    can_be_killed = True

    def __init__(self, function: Function) -> None:
        self._function = function
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["semel.blocking", __name__])

    def start(self, servers: str, output: Path, ended: Ended) -> Life:
        process = self._context.Process(target=_live, args=(self._function, servers, output), daemon=True)
        process.start()
        assert process.pid is not None

        def wait() -> int:
            process.join()
            assert process.exitcode is not None
            return process.exitcode

        return _ProcessLife(process.pid, wait, output, ended)


class LocalFunction:
    """An application that is a function, called in this process by the thread that starts it. It cannot be killed."""

    can_be_killed = False

    def __init__(self, function: Function) -> None:
        self._function = function

    def start(self, servers: str, output: Path, ended: Ended) -> Life:
        died_of = None
        try:
            self._function(servers)
        except Exception as error:
            died_of = repr(error)
        life = _LocalLife(died_of)
        ended(life)
        return life


class _LocalLife:
    """A life of a ``LocalFunction``. It has ended already when the object is created."""

    def __init__(self, died_of: str | None) -> None:
        self.died_of = died_of

    def kill(self) -> None: ...

    def stop(self) -> None: ...

    def resume(self) -> None: ...

    def terminate(self) -> None: ...


class _ProcessLife:
    def __init__(self, pid: int, wait: Callable[[], int], output: Path, ended: Ended) -> None:
        self._pid = pid
        self._wait = wait
        self._output = output
        self._ended = ended
        self._exit_code: int | None = None
        threading.Thread(target=self._watch, name=f"life {pid}", daemon=True).start()

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def stop(self) -> None:
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    @property
    def died_of(self) -> str | None:
        if not self._exit_code:
            return None
        lines = _tail(self._output).strip().splitlines()
        how = f"signal {-self._exit_code}" if self._exit_code < 0 else f"exit code {self._exit_code}"
        return f"{lines[-1]} ({how})" if lines else how

    def _signal(self, number: int) -> None:
        if self._exit_code is not None:
            return  # The process has ended, and another process may have its id by now.
        try:
            os.killpg(self._pid, number)
        except ProcessLookupError:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, number)  # The process has not made its own process group yet.

    def _watch(self) -> None:
        self._exit_code = self._wait()
        self._ended(self)


def _live(function: Function, servers: str, output: Path) -> None:
    """Run the function in its new process, with its output in a file. The main function of that process."""
    os.setsid()
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(file, 1)
    os.dup2(file, 2)
    function(servers)


def _tail(output: Path) -> str:
    try:
        with output.open("rb") as file:
            file.seek(max(0, output.stat().st_size - _TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
