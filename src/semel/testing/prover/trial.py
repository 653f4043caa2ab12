"""One scenario: a broker, lives of the application until one ends by itself, and the count of what readers see."""

from __future__ import annotations

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
    """Something is missing, or there too often."""
    NOT_ENDED = "not ended"
    """The application died again and again, or never ended."""
    STRUCK_NOTHING = "struck nothing"
    """The application did not make the request that the scenario waits for: nothing is proven."""
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """How the application lived through one scenario."""

    scenario: str
    outcome: ScenarioOutcome
    struck: int = 0
    """How often it was killed, stopped or disturbed."""
    lives: int = 0
    what: str = ""
    """What is wrong, or why the scenario does not apply."""


class ProofBroker(Protocol):
    """A broker for one trial, with faults on the wire to the application."""

    @property
    def faults(self) -> Faults: ...

    @property
    def bootstrap_servers(self) -> str: ...

    def fill(self, given: Records, *, aborts: bool) -> None:
        """Write the input; ``aborts``: and before it a copy of each record in a transaction that is aborted."""

    def expire_members(self) -> None:
        """Let so much time pass that a group gives up members that are dead, and no more."""

    def settle(self, topic: str) -> None:
        """Wait until no transaction is open in the topic, or let so much time pass that it is aborted."""

    def committed(self, topic: str) -> list[ConsumerRecord]:
        """What read_committed readers see now."""

    def restart(self, *, kill: bool) -> None: ...

    @property
    def can_restart(self) -> bool: ...


class _Event(Enum):
    ENDED = auto()
    STOPPED = auto()
    IDLE = auto()
    """It has nothing more to do."""
    STUCK = auto()
    """It does nothing, and something is missing."""


class Trial:
    """What a scenario acts upon: the broker, its faults, and the application."""

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
        """``idle_seconds`` without anything to do end a life, ``stuck_seconds`` do while something is missing."""
        self.broker = broker
        self.faults = broker.faults
        self.requests: list[ApiKey] = []
        """What the application has asked, in the order of arrival, without what clients ask by themselves."""
        self.lives = 0
        self.kills = 0
        """How often the application was killed or stopped."""
        self._restarts: list[threading.Thread] = []
        self._application = application
        self._expect = expect
        self._as_compared = as_compared
        self._idle_seconds = idle_seconds
        # A machine can be slow.
        self._stuck_seconds = (
            max(10 * (idle_seconds or 0.0), _PATIENCE_SECONDS) if stuck_seconds is None else stuck_seconds
        )
        self._life_seconds_max = life_seconds_max
        self._current: Life | None = None
        self._running: list[Life] = []
        self._starting = threading.Lock()
        """A kill that strikes the first request of a life has to know the life."""
        self._events: SimpleQueue[tuple[Life, _Event]] = SimpleQueue()
        self._held: Fault | None = None
        self._active_at = 0.0
        self._was_stuck = False

    def restart(self, *, kill: bool = False) -> None:
        """End the broker and start it again, on the same data."""
        self.broker.restart(kill=kill)

    def kill_broker(self) -> None:
        """As ``restart(kill=True)``; may be called on the broker's own thread, and returns before it is done."""
        thread = threading.Thread(target=self.restart, kwargs={"kill": True}, name="kill of the broker", daemon=True)
        self._restarts.append(thread)
        thread.start()

    def kill_application(self) -> None:
        with self._starting:
            if self._current is not None:
                self._current.kill()
                self.kills += 1

    def stop_application(self) -> None:
        """SIGSTOP. It goes on, and the request that is held with it, when another life has done its work."""
        with self._starting:
            if self._current is not None:
                self._current.stop()
                self._events.put((self._current, _Event.STOPPED))
                self.kills += 1

    def run(self, arm: Callable[[Trial], Fault | None], *, again: bool = False) -> Fault | None:
        """Run the application until a life of it ends by itself; ``again``: and one more. Raises ``NotEnded``."""
        self.faults.watcher = self._saw
        fault = self._held = arm(self)
        # A process that was killed just now may still write there.
        with TemporaryDirectory(prefix="semel-prove-", ignore_cleanup_errors=True) as folder:
            try:
                self._live_on(Path(folder))
                if again:
                    self._live_on(Path(folder))
            finally:
                self._end_all()
        return fault

    def compare(self) -> str:
        """What is missing or there too often, in words; nothing, if all is right."""
        for topic in self._expect:
            self.broker.settle(topic)
        return ". ".join(difference.told() for difference in self._differences())

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
                # Another life does its work, and then it wakes up.
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
                # It may hang. If the next life does nothing either, what is missing is lost.
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
        # A signal that ended this process in between would leave a process behind that is not known here.
        with self._starting, deferred_signals():
            life = self._current = self._application.start(servers, output, self._ended)
            self._running.append(life)
        return life

    def _next_event(self, life: Life) -> _Event:
        began = time.monotonic()
        while True:
            now = time.monotonic()
            left_s = self._life_seconds_max - (now - began)
            if left_s <= 0:
                raise NotEnded(f"life {self.lives} of the application did not end within {self._life_seconds_max:g} s")
            if self._idle_seconds is not None:
                idle_s = now - self._active_at if self._active_at else 0.0
                if idle_s >= self._idle_seconds and not any(one.missing for one in self._differences()):
                    return _Event.IDLE
                if idle_s >= self._stuck_seconds:
                    return _Event.STUCK
                left_s = min(left_s, _LOOK_SECONDS)
            try:
                about, event = self._events.get(timeout=left_s)
            except Empty:
                continue
            if about is life:
                return event

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
        # Clients commit offsets as time passes, also those that were committed already.
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
    """The application was given up."""
