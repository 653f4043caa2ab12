"""The broker's process gives the interpreter to its workers soon: a commit beside a busy loop waits for it often."""

from __future__ import annotations

import sys

import pytest

from semel.cli import running


def test_a_broker_sets_the_switch_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    before = sys.getswitchinterval()

    def refuse(loop: object) -> None:
        raise ConnectionRefusedError

    monkeypatch.setattr(running, "take_stop_signals", lambda: None)
    monkeypatch.setattr(running, "watch_stop_signals", lambda stop: None)
    try:
        with pytest.raises(ConnectionRefusedError):
            running.run_broker(refuse, ready=lambda broker: None)  # type: ignore[arg-type]
        assert sys.getswitchinterval() <= 0.0001
    finally:
        sys.setswitchinterval(before)
