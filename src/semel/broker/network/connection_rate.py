"""How many connections may be made in a second, over all addresses (``max.connection.creation.rate``).

A client that connects, is refused and connects again costs more than one that stays. So connections beyond the rate are
accepted and wait, each until its turn. What ten seconds allow may come at once: a restart brings all clients back.
"""

from __future__ import annotations

from typing import Final

_BURST_MS: Final = 10_000


class ConnectionRate:
    """The law: time is handed in, and does not go back."""

    __slots__ = ("_full_at_ms",)

    def __init__(self) -> None:
        self._full_at_ms = 0.0  # When all that may come at once may come again.

    def wait_ms(self, rate: int, now_ms: float) -> int:
        """How long a connection that is made now has to wait, at so many in a second."""
        full_at_ms = max(self._full_at_ms, now_ms)
        self._full_at_ms = full_at_ms + 1000 / rate
        return max(0, round(full_at_ms - _BURST_MS - now_ms))
