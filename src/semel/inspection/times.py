"""Times as texts: in UTC, with milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_LAST_MS: Final = int(datetime(9999, 12, 31, tzinfo=UTC).timestamp()) * 1000


def time_text(timestamp_ms: int | None) -> str | None:
    """Return a timestamp as text, such as ``2026-01-31T12:00:00.250Z``; ``None`` for a negative one.

    A timestamp after the year 9999, which producers may send, is returned as a number of milliseconds.
    """
    if timestamp_ms is None or timestamp_ms < 0:
        return None
    if timestamp_ms > _LAST_MS:
        return f"{timestamp_ms} ms"
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def timestamp_of(text: str) -> int:
    """Parse a time to milliseconds since 1970: ``2026-01-31T12:00:00Z``, the same without a zone (then UTC), or a
    number of milliseconds.

    Raises ``ValueError``.
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
