"""The exit codes of the commands. Scripts can rely on these numbers."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    OK = 0
    FAILED = 1
    """The command failed; standard error says why."""
    USAGE = 2
    """The command line has an unknown or contradictory option or argument. Nothing was done."""
    NOT_FOUND = 3
    """The named topic, group, transactional id or setting does not exist."""
    UNREACHABLE = 4
    """No broker answered in time."""
    FOUND = 5
    """A search found a problem: hanging transactions, damaged files, lost or doubled records, brokers that are away."""


DESCRIPTION = (
    "exit codes: 0 ok, 1 failed, 2 wrong usage, 3 not found, 4 no broker answered, "
    "5 found what hangs, is damaged, lost, doubled or away"
)


class UsageError(Exception):
    """A mistake on the command line, in one sentence."""
