"""How many connections may be made in a second: of all addresses, and half as many of one.

A client that connects, is refused and connects again costs more than one that stays. So connections beyond the rate are
accepted and wait, each until its turn. What ten seconds allow may come at once: a restart brings all clients back.

A connection that would wait for longer than ``WAIT_MS_MAX`` has no turn, and is closed: turns that strangers have
waiting for them would keep all others out for as long. So a flood that has ended is felt for that long at most, and one
that comes from a single address leaves the others half of the rate.
"""

from __future__ import annotations

from typing import Final

WAIT_MS_MAX: Final = 5_000
"""Less than the time that a client has to prove who it is: that begins with its connection."""
_BURST_MS: Final = 10_000
_ADDRESSES_MAX: Final = 1_000
"""How many are remembered before those that may use all of their share again are looked for and forgotten."""


class ConnectionRate:
    """The law: time is handed in, and does not go back."""

    __slots__ = ("_forget_at", "_full_at_ms", "_of_addresses")

    def __init__(self) -> None:
        self._full_at_ms = 0.0  # When all that may come at once may come again.
        self._of_addresses: dict[str, float] = {}
        self._forget_at = _ADDRESSES_MAX

    def wait_ms(self, address: str, rate: int, now_ms: float) -> int | None:
        """How long a connection that is made now has to wait, at so many in a second. None if that is too long."""
        full_at_ms = max(self._full_at_ms, now_ms)
        own_full_at_ms = max(self._of_addresses.get(address, 0.0), now_ms)
        wait_ms = max(0, round(max(full_at_ms, own_full_at_ms) - _BURST_MS - now_ms))
        if wait_ms > WAIT_MS_MAX:
            return None
        self._full_at_ms = full_at_ms + 1000 / rate
        self._of_addresses[address] = own_full_at_ms + 2000 / rate
        if len(self._of_addresses) > self._forget_at:
            self._of_addresses = {one: at_ms for one, at_ms in self._of_addresses.items() if at_ms > now_ms}
            self._forget_at = max(_ADDRESSES_MAX, 2 * len(self._of_addresses))
        return wait_ms
