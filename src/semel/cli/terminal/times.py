"""Times on the command line."""

from __future__ import annotations

from datetime import UTC, datetime

from semel.cli.exits import UsageError


def timestamp_of(text: str) -> int:
    """Milliseconds of ``2026-01-31T12:00:00Z``, of the same without a zone (then UTC), or of a number of them."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is no time: write 2026-01-31T12:00:00Z, or milliseconds since 1970") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
