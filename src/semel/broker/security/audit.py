"""The audit log: one line of JSON for each login and each request that was refused, and each change that was allowed.

The law: clients cannot fill the disk, and a slow or full disk cannot stop the broker. Lines about refused logins and
requests are limited for each client and in total; a line contains how many were left out before it (``left_out``,
``left_out_of_all``). A worker writes the lines, and the size and the number of files are limited. While lines cannot be
written, a limited number waits. Lines that do not fit, or could not be written, are counted, and a later line contains
their number.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Final

from semel.broker.log_lines import LineLimit
from semel.broker.security.audit_file import AuditFile
from semel.clock import Clock
from semel.log.worker import Worker, done_by
from semel.wire.codes import AclOperation, AclResourceType

logger = logging.getLogger("semel.broker")

# Limits of the lines about refusals: of one client, and of all clients together.
REFUSED_AT_ONCE_MAX: Final = 20
REFUSED_PER_SECOND: Final = 1
ALL_REFUSED_AT_ONCE_MAX: Final = 1000
ALL_REFUSED_PER_SECOND: Final = 20
CLIENTS_MAX: Final = 1000
"""For how many clients a limit is remembered: those that were refused last."""
WAITING_LINES_MAX: Final = 10_000
# Names are cut to this length: those that clients choose may have 32 KiB.
NAME_CHARACTERS_MAX: Final = 300
_NO_COUNTS: Final[Mapping[str, int]] = {}


class Audit:
    """The audit log of one broker."""

    def __init__(self, file: AuditFile, worker: Worker, clock: Clock) -> None:
        self._file = file
        self._worker = worker
        self._clock = clock
        self._all_refused = LineLimit(ALL_REFUSED_AT_ONCE_MAX, ALL_REFUSED_PER_SECOND)
        self._refused: dict[str, LineLimit] = {}
        self._waiting: list[bytes] = []
        self._is_writing = False
        self._lost = 0

    def login_refused(self, host: str, *, mechanism: str, user: str | None, reason: str) -> None:
        """Write that a login was refused. ``user``: the name that the client gave, if it gave one. The mechanism of
        certificates is TLS."""
        self._refuse(host, "login", host=host, mechanism=mechanism, user=user, reason=reason)

    def request_refused(
        self,
        principal: str,
        host: str,
        api: str,
        operation: AclOperation,
        resource_type: AclResourceType,
        name: str,
    ) -> None:
        """Write that a request was refused. Resources that a response only leaves out are not written."""
        self._refuse(
            f"{principal} {host}",
            "request",
            principal=principal,
            host=host,
            api=api,
            operation=operation.name,
            resource_type=resource_type.name,
            resource=name,
        )

    def changed(self, principal: str, host: str, api: str, operation: str, resource_type: str, name: str) -> None:
        """Write that a change by a client was made. ``requests/audited_changes.py`` has the names of the types."""
        self._write(
            "change",
            "allowed",
            principal=principal,
            host=host,
            api=api,
            operation=operation,
            resource_type=resource_type,
            resource=name,
        )

    async def close(self) -> None:
        """Write the lines that wait, and close the file."""
        loop = asyncio.get_running_loop()
        while self._is_writing:
            await done_by(self._worker, loop, _nothing)
        self._worker.stop()
        self._file.close()

    def kill(self) -> None:
        self._worker.kill()

    def _refuse(self, client: str, event: str, **fields: str | None) -> None:
        now_s = self._clock.monotonic_ms() / 1000
        limit = self._refused.pop(client, None) or LineLimit(REFUSED_AT_ONCE_MAX, REFUSED_PER_SECOND)
        self._refused[client] = limit
        if len(self._refused) > CLIENTS_MAX:
            forgotten = self._refused.pop(next(iter(self._refused)))
            self._all_refused.left_out += forgotten.left_out
        if limit.may_write(now_s) and self._all_refused.may_write(now_s):
            counts = {"left_out": limit.take_left_out(), "left_out_of_all": self._all_refused.take_left_out()}
            self._write(event, "refused", counts, **fields)

    def _write(self, event: str, verdict: str, counts: Mapping[str, int] = _NO_COUNTS, **fields: str | None) -> None:
        if len(self._waiting) >= WAITING_LINES_MAX:
            self._lost += 1
            return
        line: dict[str, str | int | None] = {"time": self._time(), "event": event, "verdict": verdict}
        line |= {name: text if text is None else text[:NAME_CHARACTERS_MAX] for name, text in fields.items()}
        line |= {name: count for name, count in counts.items() if count}
        self._waiting.append(_encoded(line))
        if not self._is_writing:
            self._hand_over()

    def _time(self) -> str:
        return datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC).isoformat(timespec="milliseconds")

    def _hand_over(self) -> None:
        lines, self._waiting = self._waiting, []
        count, self._lost = self._lost + len(lines), 0
        if count > len(lines):
            lines.insert(0, _encoded({"time": self._time(), "event": "lost", "lines": count - len(lines)}))
        self._is_writing = True
        self._worker.run(partial(self._file.append, lines), partial(self._written, count))

    def _written(self, count: int, result: BaseException | None) -> None:
        """Called when the worker has written lines, or failed. ``count``: these lines and those lost before them."""
        self._is_writing = False
        if result is not None:
            self._lost += count
            logger.error("%d lines of the audit log are lost: %s", self._lost, result)
        if self._waiting:
            self._hand_over()


def _encoded(line: Mapping[str, str | int | None]) -> bytes:
    """The line as JSON in ASCII, so that line breaks and control characters are escaped."""
    return json.dumps(line).encode() + b"\n"


def _nothing() -> None:
    """Work that does nothing: when the worker has done it, all earlier work is done."""
