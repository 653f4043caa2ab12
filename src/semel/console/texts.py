"""Formats numbers, times and commands for pages."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from semel.inspection.times import time_text

NOTHING: Final = "\N{EN DASH}"

_TONES: Final = {
    "Stable": "good",
    "CompleteCommit": "good",
    "commit": "good",
    "up": "good",
    "Ongoing": "warn",
    "open": "warn",
    "waiting": "warn",
    "PrepareCommit": "warn",
    "PrepareAbort": "warn",
    "PreparingRebalance": "warn",
    "CompletingRebalance": "warn",
    "Assigning": "warn",
    "Reconciling": "warn",
    "CompleteAbort": "bad",
    "abort": "bad",
    "aborted": "bad",
    "PrepareEpochFence": "bad",
    "Dead": "bad",
}


_MEANINGS: Final = {
    "data": "Every reader gets it",
    "open": "In a transaction that is open: read_committed readers do not get it yet",
    "waiting": "In no open transaction, and behind one: read_committed readers do not get it yet",
    "aborted": "Its transaction was aborted: read_committed readers never get it",
}


_UNITS: Final = (("d", 86_400, "h", 3_600), ("h", 3_600, "min", 60), ("min", 60, "s", 1))


def meaning(kind: str) -> str:
    """Return a sentence that explains a kind of record."""
    return _MEANINGS[kind]


def number(value: float | None) -> str:
    """Return a number as ``12 345``, with thin spaces; one below ten has a decimal place if it is not whole."""
    if value is None:
        return NOTHING
    if isinstance(value, float) and value < 10 and value != int(value):
        return f"{value:.1f}"
    return f"{round(value):,}".replace(",", "\u202f")


def span(milliseconds: float | None) -> str:
    """Return a duration as ``250 ms``, ``3.2 s``, ``4 min 5 s``, ``2 h 3 min`` or ``5 d 1 h``."""
    if milliseconds is None:
        return NOTHING
    if milliseconds < 1_000:
        return f"{max(round(milliseconds), 0)} ms"
    seconds = milliseconds / 1_000
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    for unit, seconds_of_it, smaller, seconds_of_smaller in _UNITS:
        if whole >= seconds_of_it:
            rest = whole % seconds_of_it // seconds_of_smaller
            return f"{whole // seconds_of_it} {unit}" + (f" {rest} {smaller}" if rest else "")
    raise AssertionError(f"{whole} s is a minute or more")


def size(count: int | None) -> str:
    if count is None:
        return NOTHING
    value = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if value < 1_000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 10 else f"{value:.1f} {unit}"
        value /= 1_000
    return f"{value:.1f} TB"


def moment(timestamp_ms: int | None) -> str:
    """Return the date and time of a timestamp, in UTC."""
    return time_text(timestamp_ms) or NOTHING


def clock(text: str | None) -> str:
    """Return the time of day in a text such as ``2026-01-31T12:00:00.250Z``."""
    return NOTHING if text is None else text.partition("T")[2].removesuffix("Z") or text


def tone(state: str | None) -> str:
    """Return the tone (good, warn, bad, calm) that gives a state its colour. Pages also show the state's name."""
    return _TONES.get(state or "", "calm")


def command(*words: str, name: str | None = None, options: Sequence[object] = ()) -> str:
    """Return a command line of ``semel`` for a shell.

    Words are quoted where necessary, so that a hostile name stays one word. A name that begins with a dash is put at
    the end, after ``--``, so that it is not an option.
    """
    rest = [str(option) for option in options]
    if name is not None:
        rest = [*rest, "--", name] if name.startswith("-") else [name, *rest]
    return shlex.join(["semel", *words, *rest])


def option(name: str, value: object) -> list[str]:
    """Return the words of an option with its value."""
    text = str(value)
    return [f"{name}={text}"] if text.startswith("-") else [name, text]
