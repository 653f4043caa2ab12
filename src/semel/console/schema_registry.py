"""Gets schemas by id from the configured schema registry. It sends ``GET URL/schemas/ids/ID`` and no other request.

The ids come from records, and any producer can write a record. So there are limits: for the size and the time of each
answer, and for the number of requests and their total time in a window of a few seconds. A schema never changes, so one
that was found is cached for good; one that was not found is requested again later. Redirects and proxies are not used.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from semel.console.avro_values import AvroSchema, SchemaRefused, parse_schema

TIMEOUT_S: Final = 3.0
ANSWER_BYTES_MAX: Final = 512 * 1024
KEPT_MAX: Final = 500
WINDOW_S: Final = 10.0
ASKED_MAX: Final = 100
"""How many requests are sent in a window."""
SPENT_S_MAX: Final = 5.0
"""How long pages wait for the registry in a window."""


FRAME_BYTES: Final = 5
"""The size of the prefix of Confluent's wire format: a zero byte, and the schema's id in four bytes."""


def schema_id_of(value: bytes) -> int | None:
    """Return the schema id in a value of Confluent's wire format; ``None`` if the value cannot have that format."""
    if len(value) < FRAME_BYTES or value[0] != 0:
        return None
    return int.from_bytes(value[1:FRAME_BYTES], "big")


class NoSchema(Exception):
    """There is no schema for an id. The message has the reason."""


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema of the registry. ``kind`` is AVRO, JSON or PROTOBUF; ``avro`` is ``None`` unless it is AVRO."""

    kind: str
    avro: AvroSchema | None


@dataclass(frozen=True, slots=True)
class _Kept:
    found: RegisteredSchema | None
    why_not: str
    until_s: float | None


class SchemaRegistry:
    """A client of the schema registry at ``url``. Several threads may use it. Raises ValueError for an invalid URL."""

    def __init__(self, url: str, now_s: Callable[[], float] = time.monotonic) -> None:
        self._at = _checked(url)
        self.url = url
        self._now_s = now_s
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, _Kept] = OrderedDict()
        self._window_began_s = now_s()
        self._asked = 0
        self._spent_s = 0.0

    def schema(self, schema_id: int) -> RegisteredSchema:
        """Return the schema of this id. Raises NoSchema. Requests are sent one at a time for all open pages."""
        with self._lock:
            kept = self._kept.get(schema_id)
            if kept is None or (kept.until_s is not None and self._now_s() > kept.until_s):
                kept = self._ask(schema_id)
                self._kept[schema_id] = kept
            self._kept.move_to_end(schema_id)
            while len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        if kept.found is None:
            raise NoSchema(kept.why_not)
        return kept.found

    def _ask(self, schema_id: int) -> _Kept:
        began_s = self._now_s()
        if began_s - self._window_began_s > WINDOW_S:
            self._window_began_s, self._asked, self._spent_s = began_s, 0, 0.0
        window_ends_s = self._window_began_s + WINDOW_S
        if self._asked >= ASKED_MAX or self._spent_s >= SPENT_S_MAX:
            raise NoSchema("the registry was asked too much, or is slow: it is asked again in a few seconds")
        self._asked += 1
        try:
            return _Kept(_registered(self._get(schema_id)), "", None)
        except (NoSchema, SchemaRefused) as error:
            return _Kept(None, str(error), began_s + WINDOW_S)
        except (OSError, http.client.HTTPException) as error:
            # If the registry does not answer, no more requests are sent in this window.
            self._spent_s = SPENT_S_MAX
            return _Kept(None, f"the registry does not answer ({type(error).__name__})", window_ends_s)
        finally:
            self._spent_s += self._now_s() - began_s

    def _get(self, schema_id: int) -> bytes:
        at = self._at
        kind = http.client.HTTPSConnection if at.scheme == "https" else http.client.HTTPConnection
        connection = kind(at.hostname or "", at.port, timeout=TIMEOUT_S)
        try:
            accepted = {"Accept": "application/vnd.schemaregistry.v1+json, application/json"}
            connection.request("GET", f"{at.path.rstrip('/')}/schemas/ids/{schema_id}", headers=accepted)
            response = connection.getresponse()
            if response.status == http.HTTPStatus.NOT_FOUND:
                raise NoSchema("the registry has no schema of this id")
            if response.status != http.HTTPStatus.OK:
                raise NoSchema(f"the registry answers {response.status}")
            body = _read(response, self._now_s() + TIMEOUT_S, self._now_s)
        finally:
            connection.close()
        return body


def _read(response: http.client.HTTPResponse, deadline_s: float, now_s: Callable[[], float]) -> bytes:
    """Read the whole body until the deadline; the timeout of the socket is only for each single read."""
    body = b""
    while piece := response.read1(64 * 1024):
        body += piece
        if len(body) > ANSWER_BYTES_MAX:
            raise NoSchema(f"its schema is larger than {ANSWER_BYTES_MAX} bytes")
        if now_s() > deadline_s:
            raise TimeoutError
    return body


def _registered(body: bytes) -> RegisteredSchema:
    """Return the schema in an answer of the registry. Raises NoSchema and SchemaRefused."""
    try:
        found: Any = json.loads(body)
        kind, text = str(found.get("schemaType", "AVRO")), found["schema"]
        references = found.get("references")
    except (ValueError, KeyError, AttributeError, RecursionError):
        raise NoSchema("the registry's answer is no schema") from None
    if kind != "AVRO":
        return RegisteredSchema(kind, None)
    if references:
        raise NoSchema("its schema refers to other schemas, which are not followed")
    return RegisteredSchema(kind, parse_schema(text))


def _checked(url: str) -> SplitResult:
    at = urlsplit(url)
    if at.scheme not in ("http", "https") or not at.hostname:
        raise ValueError(f"{url!r}: it is http://HOST[:PORT][/PATH], or https")
    if at.username is not None or at.query or at.fragment:
        raise ValueError("it has neither user nor password, and no query: they would stand in lists of processes")
    _ = at.port  # Raises ValueError if it is no valid port.
    return at
