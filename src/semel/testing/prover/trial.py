"""Runs one scenario: starts lives of the application until one ends by itself, then compares the output."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory
from typing import Final, Protocol

from semel.client.values import ConsumerRecord
from semel.testing.faults import BACKGROUND, Fault, Faults
from semel.testing.prover.lives import Application, Life, deferred_signals
from semel.testing.prover.records import Difference, Records, Value
from semel.wire.apis import APIS, ApiKey

LIVES_MAX: Final = 10
LIFE_SECONDS_MAX: Final = 180.0
_END_SECONDS_MAX: Final = 30.0
_LOOK_SECONDS: Final = 0.1
_PATIENCE_SECONDS: Final = 30.0


class ScenarioOutcome(StrEnum):
    RIGHT = "right"
    WRONG = "wrong"
    """A record is missing, or is there too often."""
    NOT_ENDED = "not ended"
    """The application died ``LIVES_MAX`` times, or a life of it never ended."""
    STRUCK_NOTHING = "struck nothing"
    """The application did not make the request at which the fault should happen: nothing is proven."""
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """The result of one scenario."""

    scenario: str
    outcome: ScenarioOutcome
    struck: int = 0
    """How often the application was killed or stopped, or its requests were faulted."""
    lives: int = 0
    """How many times the application was started."""
    what: str = ""
    """What is wrong, or why the scenario does not apply."""


class ProofBroker(Protocol):
    """A broker for one trial, with faults on the wire to the application."""

    @property
    def faults(self) -> Faults: ...

    @property
    def bootstrap_servers(self) -> str: ...

    def fill(self, given: Records, *, aborts: bool) -> None:
        """Write the input; with ``aborts`` first a copy of each record in a transaction that is aborted."""

    def expire_members(self) -> None:
        """Set time forward by just enough for the session timeout of dead members of a group, if it can be done."""

    def settle(self, topic: str) -> None:
        """Wait until no transaction is open in the topic, or set time forward until it is aborted by its timeout."""

    def committed(self, topic: str) -> list[ConsumerRecord]:
        """Return the records of the topic that a read_committed consumer sees now."""

    def restart(self, *, kill: bool) -> None: ...

    @property
    def can_restart(self) -> bool: ...


class _Event(Enum):
    ENDED = auto()
    STOPPED = auto()
    IDLE = auto()
    """The application does nothing, and no record is missing."""
    STUCK = auto()
    """The application does nothing, and a record is missing."""


class Trial:
    """One run of a scenario: the broker, its faults, and the lives of the application."""

    def __init__(
        self,
        application: Application,
        broker: ProofBroker,
        expect: Records,
        *,
        as_compared: Callable[[Value], Value] = lambda value: value,
        idle_seconds: float | None = None,
        stuck_seconds: float | None = None,
        life_seconds_max: float = LIFE_SECONDS_MAX,
    ) -> None:
        """End a life that has done nothing for ``idle_seconds``, or for ``stuck_seconds`` while a record is missing."""
        self.broker = broker
        self.faults = broker.faults
        self.requests: list[ApiKey] = []
        """The requests of the application in the order of arrival, without those of ``BACKGROUND``."""
        self.lives = 0
        self.kills = 0
        """How often the application was killed or stopped."""
        self._restarts: list[threading.Thread] = []
        self._application = application
        self._expect = expect
        self._as_compared = as_compared
        self._idle_seconds = idle_seconds
        # Long enough that an application on a slow machine is not taken for a stuck one.
        self._stuck_seconds = (
            max(10 * (idle_seconds or 0.0), _PATIENCE_SECONDS) if stuck_seconds is None else stuck_seconds
        )
        self._life_seconds_max = life_seconds_max
        self._current: Life | None = None
        self._running: list[Life] = []
        self._starting = threading.Lock()
        """Held while a life is started, so that a kill at its first request finds the life in ``_current``."""
        self._events: SimpleQueue[tuple[Life, _Event]] = SimpleQueue()
        self._held: Fault | None = None
        self._active_at = 0.0
        self._was_stuck = False

    def restart(self, *, kill: bool = False) -> None:
        """Stop the broker and start it again, with the same data."""
        self.broker.restart(kill=kill)

    def kill_broker(self) -> None:
        """Start ``restart(kill=True)`` in a thread and return at once. May be called on the broker's own thread."""
        thread = threading.Thread(target=self.restart, kwargs={"kill": True}, name="kill of the broker", daemon=True)
        self._restarts.append(thread)
        thread.start()

    def kill_application(self) -> None:
        with self._starting:
            if self._current is not None:
                self._current.kill()
                self.kills += 1

    def stop_application(self) -> None:
        """Stop the application with SIGSTOP. When another life has done its work, it and its held request continue."""
        with self._starting:
            if self._current is not None:
                self._current.stop()
                self._events.put((self._current, _Event.STOPPED))
                self.kills += 1

    def run(self, arm: Callable[[Trial], Fault | None], *, again: bool = False) -> Fault | None:
        """Run the application until a life of it ends by itself; with ``again`` once more. Raises ``NotEnded``."""
        self.faults.watcher = self._saw
        fault = self._held = arm(self)
        # A process that has just been killed may still write to the folder.
        with TemporaryDirectory(prefix="semel-prove-", ignore_cleanup_errors=True) as folder:
            try:
                self._live_on(Path(folder))
                if again:
                    self._live_on(Path(folder))
            finally:
                self._end_all()
        return fault

    def compare(self) -> str:
        """Return as text which records are missing or there too often; empty if there are none."""
        for topic in self._expect:
            self.broker.settle(topic)
        return ". ".join(difference.as_text() for difference in self._differences())

    def _differences(self) -> list[Difference]:
        differences = (
            Difference.between(topic, records, self.broker.committed(topic), self._as_compared)
            for topic, records in self._expect.items()
        )
        return [difference for difference in differences if difference.missing or difference.extra]

    def _live_on(self, folder: Path) -> None:
        died_of: str | None = None
        while self.lives < LIVES_MAX:
            life = self._start(folder)
            event = self._next_event(life)
            if event is _Event.STOPPED:
                # Another life does the work of the stopped one, which continues afterwards.
                self.broker.expire_members()
                self._live_on(folder)
                life.resume()
                assert self._held is not None
                self._held.release()
                self._active_at = time.monotonic()
                event = self._next_event(life)
            if event is _Event.IDLE or (event is _Event.STUCK and self._was_stuck):
                self._terminate(life)
                return
            if event is _Event.STUCK:
                # The life may hang. If the next one does nothing either, the missing records are lost.
                self._was_stuck = True
                life.kill()
                self._active_at = 0.0
                self._next_event(life)
            self._running.remove(life)
            died_of = life.died_of
            if died_of is None:
                return
            self.broker.expire_members()
        raise NotEnded(f"the application died {LIVES_MAX} times, the last time of {died_of}")

    def _start(self, folder: Path) -> Life:
        self.lives += 1
        self._active_at = 0.0
        output = folder / f"life-{self.lives}"
        servers = self.broker.bootstrap_servers
        if not self._application.can_be_killed:
            life = self._application.start(servers, output, self._ended)
            self._running.append(life)
            return life
        # A signal that ended this process here would leave the started process running: ``_running`` does not have it
        # yet.
        with self._starting, deferred_signals():
            life = self._current = self._application.start(servers, output, self._ended)
            self._running.append(life)
        return life

    def _next_event(self, life: Life) -> _Event:
        began = time.monotonic()
        wait_s = 0.0  # An event that is there already comes first: a life that has ended does not hang.
        while True:
            with contextlib.suppress(Empty):
                about, event = self._events.get(timeout=wait_s)
                if about is life:
                    return event
            now = time.monotonic()
            wait_s = self._life_seconds_max - (now - began)
            if wait_s <= 0:
                raise NotEnded(f"life {self.lives} of the application did not end within {self._life_seconds_max:g} s")
            if self._idle_seconds is not None:
                idle_s = now - self._active_at if self._active_at else 0.0
                if idle_s >= self._idle_seconds and not any(one.missing for one in self._differences()):
                    return _Event.IDLE
                if idle_s >= self._stuck_seconds:
                    return _Event.STUCK
                wait_s = min(wait_s, _LOOK_SECONDS)

    def _terminate(self, life: Life) -> None:
        life.terminate()
        try:
            while self._events.get(timeout=_END_SECONDS_MAX)[0] is not life:
                pass
        except Empty:
            life.kill()
        self._running.remove(life)

    def _ended(self, life: Life) -> None:
        self._events.put((life, _Event.ENDED))

    def _saw(self, key: int) -> None:
        if key in BACKGROUND or key not in APIS:
            return
        self.requests.append(ApiKey(key))
        # Not activity: clients commit offsets periodically, also those that were committed already.
        if key != ApiKey.OFFSET_COMMIT:
            self._active_at = time.monotonic()

    def _end_all(self) -> None:
        self.faults.watcher = None
        self.faults.clear()
        for life in self._running:
            life.kill()
        for thread in self._restarts:
            thread.join()


class NotEnded(Exception):
    """The application did not end: it died ``LIVES_MAX`` times, or one life took too long."""
