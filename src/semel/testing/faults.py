"""Faults between a test's broker and its clients: lost, delayed and refused requests and responses.

    broker.faults.drop_response("Produce")              # the records are written, the producer does not know it
    broker.faults.fail("TxnOffsetCommit", "COORDINATOR_NOT_AVAILABLE", times=2)

A fault is armed for the next ``times`` requests of an API, from any client. If several are armed for one API, they are
used in the order in which they were armed. The broker itself is not changed: faults happen on the wire between it and
its clients (``faulty_connection.py``), so a client sees only what it could see in production.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from semel.errors import ErrorCode
from semel.testing.refusals import can_be_refused
from semel.testing.tracing.wire_observer import WireObserver
from semel.wire.apis import APIS, Api, ApiKey


@dataclass(eq=False, slots=True)
class Fault:
    """One armed fault. ``hits`` counts the requests that it has affected."""

    api: Api
    times: int
    kind: str
    seconds: float = 0.0
    code: ErrorCode = ErrorCode.NONE
    skip: int = 0
    """The number of requests of the API that pass unaffected before the fault happens."""
    then: Callable[[], object] | None = None
    """Called on the broker's thread when the fault happens, before the client can notice anything."""
    hits: int = 0
    _struck: threading.Event = field(default_factory=threading.Event)
    _released: bool = False
    _holders: list[Callable[[], object]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __repr__(self) -> str:
        what = f" {self.code.name}" if self.code is not ErrorCode.NONE else ""
        return f"<{self.kind}{what} of {self.api.name}: {self.hits} of {self.times}>"

    def wait(self, seconds: float = 10.0) -> None:
        """Wait until the fault has happened ``times`` times. Raises ``TimeoutError``, which says how often it has."""
        if not self._struck.wait(seconds):
            raise TimeoutError(f"{self!r} after {seconds} s")

    def release(self) -> None:
        """Pass on the requests that ``hold`` has held; from now on the fault holds no requests."""
        with self._lock:
            self._released = True
            holders, self._holders = self._holders, []
        for go_on in holders:
            go_on()

    def held(self, go_on: Callable[[], object]) -> None:
        """Register a request that a connection holds; ``go_on`` is called, from any thread, when it is released."""
        with self._lock:
            self._holders.append(go_on)
            is_released = self._released
        if is_released:
            self.release()

    def _count_hit(self) -> bool:
        """Count one more affected request. Return whether the fault has now happened ``times`` times."""
        self.hits += 1
        if self.hits >= self.times:
            self._struck.set()
        return self._struck.is_set()


DROP_REQUEST: Final = "dropped request"
DROP_RESPONSE: Final = "dropped response"
DELAY: Final = "delay"
FAIL: Final = "refusal"
HOLD: Final = "held request"
DROP_NEXT: Final = "dropped request after an answer"

BACKGROUND: Final = frozenset(
    {
        ApiKey.API_VERSIONS,
        ApiKey.METADATA,
        ApiKey.LIST_OFFSETS,
        ApiKey.FETCH,
        ApiKey.HEARTBEAT,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.PUSH_TELEMETRY,
    }
)
"""Requests that clients make by themselves as time passes. Their number says nothing about an application."""


class Faults:
    """The faults of one broker. Safe to use from any thread, also while clients are connected."""

    def __init__(self, move_coordinator: Callable[[str, float], None]) -> None:
        self._armed: dict[ApiKey, list[Fault]] = {}
        self._following: list[Fault] = []
        """The DROP_NEXT faults whose request was answered: each drops the next request."""
        self._lock = threading.Lock()
        self.watcher: Callable[[int], object] | None = None
        """Called on the broker's thread with the API key of every request that arrives."""
        self.observer: WireObserver | None = None
        """Receives every message on the connections that are opened after it was set."""
        self.connections = itertools.count(1)
        self._move_coordinator = move_coordinator

    def drop_request(
        self, api: str, *, times: int = 1, skip: int = 0, then: Callable[[], object] | None = None
    ) -> Fault:
        """Close the connection on which the request arrives: the broker never sees the request."""
        return self._arm(Fault(_api(api), times, DROP_REQUEST, skip=skip, then=then))

    def drop_response(
        self, api: str, *, times: int = 1, skip: int = 0, then: Callable[[], object] | None = None
    ) -> Fault:
        """Let the broker carry out the request, and close the connection instead of sending the response."""
        return self._arm(Fault(_api(api), times, DROP_RESPONSE, skip=skip, then=then))

    def drop_next_request(self, api: str, *, skip: int = 0, then: Callable[[], object] | None = None) -> Fault:
        """Let a request of the API be answered, and drop the next request of any API that is not in ``BACKGROUND``."""
        return self._arm(Fault(_api(api), 1, DROP_NEXT, skip=skip, then=then))

    def hold(self, api: str, *, skip: int = 0, then: Callable[[], object] | None = None) -> Fault:
        """Hold a request, and all later bytes on its connection, until ``release`` of the returned fault is called."""
        return self._arm(Fault(_api(api), 1, HOLD, skip=skip, then=then))

    def delay(self, api: str, *, seconds: float, times: int = 1) -> Fault:
        """Hold the request, and all later bytes on its connection, for ``seconds`` before the broker sees it."""
        if seconds < 0:
            raise ValueError(f"a delay of {seconds} seconds; it is at least 0")
        return self._arm(Fault(_api(api), times, DELAY, seconds=seconds))

    def fail(self, api: str, error: str | ErrorCode, *, times: int = 1) -> Fault:
        """Answer the request with this error, for every partition, topic or key in it. The broker never sees it."""
        found = _api(api)
        if not can_be_refused(found):
            raise ValueError(f"{found.name} cannot be answered with an error: its response has no place for one")
        return self._arm(Fault(found, times, FAIL, code=_error(error)))

    def move_coordinator(self, name: str, *, away_seconds: float = 0.0) -> None:
        """Simulate a failover of the coordinator of this transactional id or group, as clients see it.

        The coordinator is unloaded, requests for it are answered NOT_COORDINATOR for ``away_seconds``, then it is
        loaded from its log again under a higher leader epoch.
        """
        self._move_coordinator(name, away_seconds)

    def clear(self) -> None:
        """Disarm everything."""
        with self._lock:
            self._armed.clear()
            self._following.clear()

    @property
    def armed(self) -> list[Fault]:
        """The faults that have not happened as often as they were armed for."""
        if not self._armed and not self._following:
            return []
        with self._lock:
            return [fault for faults in self._armed.values() for fault in faults] + self._following

    def take(self, key: int) -> Fault | None:
        """Return the fault for a request that has just arrived, if any, and count the request."""
        if not self._armed and not self._following:
            return None
        with self._lock:
            if self._following and key not in BACKGROUND:
                fault = self._following.pop(0)
                fault._count_hit()
                return fault
            faults = self._armed.get(ApiKey(key)) if key in APIS else None
            if not faults:
                return None
            fault = faults[0]
            if fault.skip:
                fault.skip -= 1
                return None
            if fault.kind == DROP_NEXT or fault._count_hit():
                faults.pop(0)
                if not faults:
                    del self._armed[fault.api.key]
            return fault

    def follow(self, fault: Fault) -> None:
        """Arm the second half of a DROP_NEXT fault: its request was answered, and the next request is to be dropped."""
        with self._lock:
            self._following.append(fault)

    def _arm(self, fault: Fault) -> Fault:
        if fault.times < 1:
            raise ValueError(f"times={fault.times}; a fault strikes at least once")
        if fault.skip < 0:
            raise ValueError(f"skip={fault.skip}; it is at least 0")
        with self._lock:
            self._armed.setdefault(fault.api.key, []).append(fault)
        return fault


def _api(name: str) -> Api:
    by_name = {_plain(api.name): api for api in APIS.values()}
    found = by_name.get(_plain(name))
    if found is None:
        close = get_close_matches(_plain(name), by_name, n=1)
        hint = f"; did you mean {by_name[close[0]].name}?" if close else ""
        raise ValueError(f"there is no API {name!r}{hint}")
    return found


def _error(error: str | ErrorCode) -> ErrorCode:
    if isinstance(error, ErrorCode):
        return error
    try:
        return ErrorCode[error.upper()]
    except KeyError:
        close = get_close_matches(error.upper(), ErrorCode.__members__, n=1)
        hint = f"; did you mean {close[0]}?" if close else ""
        raise ValueError(f"there is no error code {error!r}{hint}") from None


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
