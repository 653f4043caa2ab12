"""Times on the command line."""

from __future__ import annotations

from semel.cli.exits import UsageError
from semel.inspection import times


def timestamp_of(text: str) -> int:
    """Milliseconds of ``2026-01-31T12:00:00Z``, of the same without a zone (then UTC), or of a number of them."""
    try:
        return times.timestamp_of(text)
    except ValueError as error:
        raise UsageError(str(error)) from None
