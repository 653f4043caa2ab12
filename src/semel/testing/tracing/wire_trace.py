"""Makes events of the frames between clients and a broker: requests, responses, and the faults applied to them.

The law: one event for every message, in the order of the wire, also for one that cannot be decoded. A response has no
API key and version; they are those of the request with its correlation id.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from uuid import UUID

from semel.errors import DecodeError
from semel.testing.tracing.summaries import errors_in, summary_of_request, summary_of_response
from semel.testing.tracing.summary_text import text_of
from semel.testing.tracing.summary_values import Fields
from semel.wire.apis import APIS, Api, ApiKey
from semel.wire.codec import decoder, request_decoder
from semel.wire.framing import SIZE_PREFIX_BYTES, decode_request_header, decode_response_header


class WireEventKind(Enum):
    """What happened to a message."""

    REQUEST = "request"
    ANSWER = "answer"
    REQUEST_LOST = "request lost"
    ANSWER_LOST = "answer lost"
    HELD = "held"
    RELEASED = "released"


@dataclass(frozen=True, slots=True)
class WireEvent:
    """One request or response, or a fault that was applied to one."""

    time_ms: int
    kind: WireEventKind
    connection: int
    client_id: str | None
    api: str
    version: int
    correlation_id: int
    fields: Fields = field(default_factory=dict)
    """The fields of the message that are shown."""
    errors: tuple[str, ...] = ()
    """The names of the error codes in a response."""
    elapsed_ms: float | None = None
    """The time from the request to its response; ``None`` for other events."""
    server: str | None = None
    """The name of the broker, if the ``WireTrace`` was given one."""

    def as_dict(self) -> dict[str, Any]:
        values = {
            "time_ms": self.time_ms,
            "passage": self.kind.value,
            "connection": self.connection,
            "client_id": self.client_id,
            "api": self.api,
            "version": self.version,
            "correlation_id": self.correlation_id,
            "fields": self.fields,
            "errors": list(self.errors),
            "elapsed_ms": None if self.elapsed_ms is None else round(self.elapsed_ms, 2),
            "server": self.server,
        }
        return {name: value for name, value in values.items() if value is not None}

    @property
    def text(self) -> str:
        """The event as one line with API, version, shown fields and errors, without time and connection."""
        words = [f"{self.api} v{self.version}", text_of(self.fields), *self.errors]
        return " ".join(word for word in words if word)


@dataclass(slots=True)
class _Pending:
    """A request without a response yet."""

    api: Api | None
    name: str
    version: int
    client_id: str | None
    since: float


class WireTrace:
    """A ``WireObserver`` that calls ``on_event`` with each event, on the thread of the connections.

    ``server`` is the name of the broker. ``names`` are the topic names by topic id, filled from responses to Metadata;
    the traces of several brokers can share them. ``clock`` returns seconds since 1970.
    """

    def __init__(
        self,
        on_event: Callable[[WireEvent], object],
        *,
        server: str | None = None,
        names: dict[UUID, str] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._on_event = on_event
        self._server = server
        self._clock = clock
        self._pending: dict[tuple[int, int], _Pending] = {}
        self._names = {} if names is None else names
        self._lock = threading.Lock()

    def opened(self, connection: int, peer: str) -> None:
        pass

    def closed(self, connection: int) -> None:
        with self._lock:
            for key in [key for key in self._pending if key[0] == connection]:
                del self._pending[key]

    def requested(self, connection: int, frame: bytes) -> None:
        body = memoryview(frame)[SIZE_PREFIX_BYTES:]
        fields: Fields
        try:
            header, position = decode_request_header(body)
            api = APIS.get(header.api_key)
            known = api if api is not None and api.min_version <= header.api_version <= api.max_version else None
            name = _name(header.api_key)
            if known is None:
                fields = {"bytes": len(body), "unread": "a version that is not known here"}
            else:
                request = request_decoder(known.request_class, header.api_version)(body, position)
                fields = summary_of_request(known, request, self._names)
            pending = _Pending(known, name, header.api_version, header.client_id, self._clock())
            correlation_id = header.correlation_id
        except DecodeError as error:
            pending, correlation_id = _Pending(None, "?", -1, None, self._clock()), -1
            fields = {"bytes": len(body), "unread": str(error)}
        with self._lock:
            if not (pending.api is not None and pending.api.key is ApiKey.PRODUCE and fields.get("acks") == 0):
                self._pending[connection, correlation_id] = pending
        self._emit(WireEventKind.REQUEST, connection, correlation_id, pending, fields)

    def request_lost(self, connection: int, correlation_id: int) -> None:
        self._record_fault(WireEventKind.REQUEST_LOST, connection, correlation_id)

    def request_held(self, connection: int, correlation_id: int) -> None:
        self._record_fault(WireEventKind.HELD, connection, correlation_id)

    def request_released(self, connection: int, correlation_id: int) -> None:
        self._record_fault(WireEventKind.RELEASED, connection, correlation_id)

    def answered(self, connection: int, frame: bytes) -> None:
        self._answer(WireEventKind.ANSWER, connection, frame)

    def answer_lost(self, connection: int, frame: bytes) -> None:
        self._answer(WireEventKind.ANSWER_LOST, connection, frame)

    def _answer(self, kind: WireEventKind, connection: int, frame: bytes) -> None:
        body = memoryview(frame)[SIZE_PREFIX_BYTES:]
        correlation_id = int.from_bytes(body[:4], "big", signed=True)
        with self._lock:
            pending = self._pending.pop((connection, correlation_id), None)
        if pending is None:
            pending = _Pending(None, "?", -1, None, self._clock())
        fields: Fields = {"bytes": len(body)}
        errors: tuple[str, ...] = ()
        if pending.api is not None:
            try:
                _, position = decode_response_header(body, pending.api, pending.version)
                response = decoder(pending.api.response_class, pending.version)(body, position)
                fields = summary_of_response(pending.api, response, self._names)
                errors = errors_in(response)
            except DecodeError as error:
                fields["unread"] = str(error)
        self._emit(kind, connection, correlation_id, pending, fields, errors, (self._clock() - pending.since) * 1000)

    def _record_fault(self, kind: WireEventKind, connection: int, correlation_id: int) -> None:
        with self._lock:
            pending = self._pending.get((connection, correlation_id)) or _Pending(None, "?", -1, None, self._clock())
        self._emit(kind, connection, correlation_id, pending, {})

    def _emit(
        self,
        kind: WireEventKind,
        connection: int,
        correlation_id: int,
        about: _Pending,
        fields: Fields,
        errors: tuple[str, ...] = (),
        elapsed_ms: float | None = None,
    ) -> None:
        self._on_event(
            WireEvent(
                round(self._clock() * 1000),
                kind,
                connection,
                about.client_id,
                about.name,
                about.version,
                correlation_id,
                fields,
                errors,
                elapsed_ms,
                self._server,
            )
        )


def _name(api_key: int) -> str:
    if api_key in APIS:
        return APIS[api_key].name
    try:
        return "".join(word.capitalize() for word in ApiKey(api_key).name.split("_"))
    except ValueError:
        return f"API {api_key}"
