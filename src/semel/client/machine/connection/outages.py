"""Outages of brokers, as the log tells them: one line when a broker is lost, one when it answers again.

A client has several connections to a broker and tries each of them again and again; a process may have several clients.
The law: an outage is two lines, whatever was lost with it and however often it was tried. Clients that share an
``Outages`` share the lines. Attempts that say nothing new are logged for debugging.
"""

from __future__ import annotations

import logging
from collections import Counter
from threading import Lock

log = logging.getLogger(__name__)


class Outages:
    """The brokers that are away now. It may be shared between threads. ``waits`` is added to the line of a loss."""

    def __init__(self, waits: str = "") -> None:
        self._waits = waits
        self._lock = Lock()
        self._since_ms: dict[str, float] = {}
        self._ended: Counter[str] = Counter()

    def ended(self, broker: str) -> int:
        """How many outages of this broker are over. A connection keeps what this was when it was made."""
        return self._ended[broker]

    def lost(self, broker: str, reason: str, now_ms: float, *, made_after: int, is_known: bool = False) -> None:
        """A connection was lost, or could not be made. ``made_after``: what ``ended`` was when it was made.

        A connection that was made before the broker answered again was lost in the outage that is over. ``is_known``:
        the client is in an outage under another address of the broker.
        """
        with self._lock:
            is_new = broker not in self._since_ms and made_after == self._ended[broker] and not is_known
            if is_new:
                self._since_ms[broker] = now_ms
        log.log(logging.WARNING if is_new else logging.DEBUG, "lost the connection to broker %s%s", reason, self._waits)

    def answered(self, broker: str, now_ms: float) -> None:
        with self._lock:
            since_ms = self._since_ms.pop(broker, None)
            if since_ms is None:
                return
            self._ended[broker] += 1
        # As visible as the loss, which else would seem to last.
        log.warning("broker %s answers again after %.1f s", broker, (now_ms - since_ms) / 1000)
