"""The log lines about outages of brokers: one when a broker is lost, one when it answers again.

A client has several connections to a broker and tries each of them again and again; a process may have several clients.
The law: an outage is two lines, however many connections were lost and however often they were tried. Clients that
share an ``Outages`` share the lines. Further failed attempts are logged at debug level.
"""

from __future__ import annotations

import logging
from collections import Counter
from threading import Lock

log = logging.getLogger(__name__)


class Outages:
    """The brokers that are unreachable now; threads may share it. ``waits`` is appended to the line about a loss."""

    def __init__(self, waits: str = "") -> None:
        self._waits = waits
        self._lock = Lock()
        self._since_ms: dict[str, float] = {}
        self._ended: Counter[str] = Counter()

    def ended(self, broker: str) -> int:
        """Return how many outages of this broker have ended. A connection stores this number when it is made."""
        return self._ended[broker]

    def lost(self, broker: str, reason: str, now_ms: float, *, made_after: int, is_known: bool = False) -> None:
        """Log that a connection was lost or not made. ``made_after`` is what ``ended`` returned when it was made.

        A connection that was made before the broker answered again belongs to an outage that has ended, so it makes no
        new line. ``is_known``: the outage was already logged under another address of the broker.
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
        # At the same level as the loss; otherwise the outage would seem to last.
        log.warning("broker %s answers again after %.1f s", broker, (now_ms - since_ms) / 1000)
