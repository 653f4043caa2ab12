"""Times on the command line."""

from __future__ import annotations

from semel.cli.exits import UsageError
from semel.inspection import times


def timestamp_of(text: str) -> int:
    """Parse a time, as ``inspection.times.timestamp_of`` does, to milliseconds since 1970. Raises ``UsageError``."""
    try:
        return times.timestamp_of(text)
    except ValueError as error:
        raise UsageError(str(error)) from None
