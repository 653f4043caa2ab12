"""A signal may come at any instruction, also between making a coroutine and running it."""

from __future__ import annotations

import os
import signal
import warnings

import pytest

from semel.cli.terminal.interruption import SIGNALS, Interrupted, interruptible, raised_signals


async def answer() -> None:
    """Stands for a question to a broker."""


@pytest.mark.parametrize("number", SIGNALS)
def test_a_question_that_a_signal_left_unasked_is_not_reported(number: signal.Signals) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(Interrupted) as interrupted, raised_signals():
            _left_unasked(number)
        assert interrupted.value.exit_code == 128 + number
        del interrupted

    assert _about_the_question(told) == []


def test_the_first_signal_is_noted_and_the_second_interrupts() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(Interrupted), interruptible():
            _left_unasked_by_the_second(signal.SIGTERM)

    assert _about_the_question(told) == []


def _about_the_question(told: list[warnings.WarningMessage]) -> list[str]:
    """The objects of other tests may be collected meanwhile, and are told of too."""
    return [text for text in (str(warning.message) for warning in told) if answer.__qualname__ in text]


def _left_unasked(number: signal.Signals) -> None:
    question = answer()
    os.kill(os.getpid(), number)
    question.close()


def _left_unasked_by_the_second(number: signal.Signals) -> None:
    os.kill(os.getpid(), number)
    _left_unasked(number)
