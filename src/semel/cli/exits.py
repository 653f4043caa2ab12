"""The exit codes of the commands. Scripts can rely on these numbers."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    OK = 0
    FAILED = 1
    """It was tried, and something went wrong; standard error says what."""
    USAGE = 2
    """It was asked for something that does not exist, or that contradicts itself. Nothing was done."""
    NOT_FOUND = 3
    """The topic, group, transactional id or setting that was named is not there."""
    UNREACHABLE = 4
    """No broker answered in time."""
    FOUND = 5
    """A search found what should not be there: hanging transactions, damaged files, lost or doubled records, brokers
    that are away."""


DESCRIPTION = (
    "exit codes: 0 ok, 1 failed, 2 wrong usage, 3 not found, 4 no broker answered, "
    "5 found what hangs, is damaged, lost, doubled or away"
)


class UsageError(Exception):
    """A mistake on the command line, in one sentence."""
