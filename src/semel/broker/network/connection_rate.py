"""The limit of new connections in a second: for all addresses together, and half of it for one address.

A client that connects, is refused and connects again costs more than one that stays connected. So connections beyond
the rate are accepted, and wait until they may begin. The connections of ten seconds may come at once, because all
clients connect again after a restart.

A connection that would wait for longer than ``WAIT_MS_MAX`` is closed: a long queue of hostile connections would keep
all others waiting. So after a flood of connections has ended, others wait for that long at most, and a flood from one
address leaves half of the rate to the others.
"""

from __future__ import annotations

from typing import Final

WAIT_MS_MAX: Final = 5_000
"""The longest wait. It is shorter than the time that a client has to log in, which begins with its connection."""
_BURST_MS: Final = 10_000
_ADDRESSES_MAX: Final = 1_000
"""How many addresses are remembered before those that may use all of their share again are removed."""


class ConnectionRate:
    """The limit of one server or listener. The ``now_ms`` of successive calls must not decrease."""

    __slots__ = ("_forget_at", "_full_at_ms", "_of_addresses")

    def __init__(self) -> None:
        self._full_at_ms = 0.0  # When the whole burst is allowed again.
        self._of_addresses: dict[str, float] = {}
        self._forget_at = _ADDRESSES_MAX

    def wait_ms(self, address: str, rate: int, now_ms: float) -> int | None:
        """Return how long a new connection has to wait, at ``rate`` connections in a second; None if it is too long."""
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
