"""Times as texts: in UTC, with milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_LAST_MS: Final = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp()) * 1000


def time_text(timestamp_ms: int | None) -> str | None:
    """``2026-01-31T12:00:00.250Z``; a time that no calendar has, which producers may send, stays a number."""
    if timestamp_ms is None or timestamp_ms < 0:
        return None
    if timestamp_ms > _LAST_MS:
        return f"{timestamp_ms} ms"
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def timestamp_of(text: str) -> int:
    """Milliseconds of ``2026-01-31T12:00:00Z``, of the same without a zone (then UTC), or of a number of them.

    Raises ValueError.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no time: write 2026-01-31T12:00:00Z, or milliseconds since 1970") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)
