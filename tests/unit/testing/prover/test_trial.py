"""The lives of a trial: an application that hangs is not one that loses records."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from semel.client.values import ConsumerRecord
from semel.testing.faults import Faults
from semel.testing.prover.lives import Ended, Life
from semel.testing.prover.records import Records
from semel.testing.prover.trial import LIVES_MAX, NotEnded, Trial
from semel.wire.apis import ApiKey

EXPECT = {"doubled": [b"2"]}


class ModelBroker:
    """Its output is a list. It counts how often members were let go."""

    can_restart = False
    bootstrap_servers = "model:9092"

    def __init__(self) -> None:
        self.faults = Faults(lambda name, seconds: None)
        self.output: list[bytes] = []
        self.expired = 0

    def fill(self, given: Records, *, aborts: bool) -> None: ...

    def expire_members(self) -> None:
        self.expired += 1

    def settle(self, topic: str) -> None: ...

    def committed(self, topic: str) -> list[ConsumerRecord]:
        return [
            ConsumerRecord(topic, 0, offset, timestamp=0, key=None, value=value, headers=())
            for offset, value in enumerate(self.output)
        ]

    def restart(self, *, kill: bool) -> None: ...


class ModelLife:
    """Ends when it is told to, or by itself at once."""

    def __init__(self, ended: Ended) -> None:
        self.died_of: str | None = None
        self._ended = ended

    def end(self) -> None:
        self._ended(self)

    def kill(self) -> None:
        self.died_of = "signal 9"
        self._ended(self)

    def stop(self) -> None: ...

    def resume(self) -> None: ...

    def terminate(self) -> None:
        self.died_of = "signal 15"
        self._ended(self)


class ModelApplication:
    """Its lives do, one after the other, what they are given to do."""

    can_be_killed = True

    def __init__(self, *lives: Callable[[ModelLife], None]) -> None:
        self._lives = iter(lives)

    def start(self, servers: str, output: Path, ended: Ended) -> Life:
        life = ModelLife(ended)
        next(self._lives)(life)
        return life


@pytest.fixture
def broker() -> ModelBroker:
    return ModelBroker()


def _trial(broker: ModelBroker, *lives: Callable[[ModelLife], None]) -> Trial:
    return Trial(ModelApplication(*lives), broker, EXPECT, idle_seconds=0.001, stuck_seconds=0.002)


def _asks(broker: ModelBroker) -> None:
    assert broker.faults.watcher is not None
    broker.faults.watcher(ApiKey.FIND_COORDINATOR)


def test_a_life_that_has_done_all_is_ended_when_it_is_idle(broker: ModelBroker) -> None:
    def works(life: ModelLife) -> None:
        _asks(broker)
        broker.output.append(b"2")

    trial = _trial(broker, works)
    trial.run(lambda trial: None)
    assert (trial.lives, trial.compare(), broker.expired) == (1, "", 0)


def test_a_life_that_hangs_is_killed_and_the_next_one_does_the_work(broker: ModelBroker) -> None:
    def hangs(life: ModelLife) -> None:
        _asks(broker)

    def works(life: ModelLife) -> None:
        broker.output.append(b"2")
        life.end()

    trial = _trial(broker, hangs, works)
    trial.run(lambda trial: None)
    assert (trial.lives, trial.compare(), broker.expired) == (2, "", 1)


def test_a_life_that_has_ended_does_not_hang_however_late_this_is_seen(broker: ModelBroker) -> None:
    def ends(life: ModelLife) -> None:
        _asks(broker)
        life.end()
        time.sleep(0.01)  # Longer than a life may do nothing.

    trial = _trial(broker, ends)
    trial.run(lambda trial: None)
    assert trial.lives == 1


def test_what_two_idle_lives_did_not_write_is_missing(broker: ModelBroker) -> None:
    def idles(life: ModelLife) -> None:
        _asks(broker)

    trial = _trial(broker, idles, idles)
    trial.run(lambda trial: None)
    assert trial.lives == 2
    assert "Missing: b'2' x 1" in trial.compare()


def test_requests_that_clients_make_by_themselves_or_that_nothing_knows_are_not_counted(broker: ModelBroker) -> None:
    def asks(life: ModelLife) -> None:
        assert broker.faults.watcher is not None
        for key in (ApiKey.FETCH, ApiKey.HEARTBEAT, 12345, ApiKey.END_TXN):
            broker.faults.watcher(key)
        life.end()

    trial = _trial(broker, asks)
    trial.run(lambda trial: None)
    assert trial.requests == [ApiKey.END_TXN]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_comes_while_a_life_is_started_ends_that_life(
    broker: ModelBroker, number: signal.Signals
) -> None:
    """It was started, and its process would have been left behind."""
    lives: list[ModelLife] = []

    def is_interrupted(life: ModelLife) -> None:
        lives.append(life)
        signal.raise_signal(number)

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    earlier = signal.signal(number, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            _trial(broker, is_interrupted).run(lambda trial: None)
        assert signal.getsignal(number) is interrupt
    finally:
        signal.signal(number, earlier)
    assert [life.died_of for life in lives] == ["signal 9"]


def test_an_application_that_always_dies_is_given_up(broker: ModelBroker) -> None:
    trial = _trial(broker, *[ModelLife.kill] * LIVES_MAX)
    with pytest.raises(NotEnded, match="died 10 times, the last time of signal 9"):
        trial.run(lambda trial: None)
    assert broker.faults.watcher is None
