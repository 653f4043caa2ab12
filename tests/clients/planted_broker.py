"""``semel`` with one bug planted: ``python planted_broker.py BUG serve ...``.

Each is a check that the broker has had to learn. An attack of ``tools/hostile`` must show that it is gone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from semel.broker import log_lines
from semel.broker.network.response_memory import ResponseMemory
from semel.broker.requests import dispatch
from semel.broker.security.authentication import _Login
from semel.cli.main import main
from semel.errors import DecodeError
from semel.log import admission, partition_log, replica_copies
from semel.types import INT32_MAX, Buffer
from semel.wire.framing import decode_request_header


def believes_every_header() -> None:
    """A batch may say that it holds no records, or fewer than none."""
    for module in (admission, partition_log, replica_copies):
        for rule, answer in (("producer_fault", None), ("is_walkable", True)):
            if hasattr(module, rule):
                setattr(module, rule, partial(_always, answer))


def _always(answer: object, *_: object) -> object:
    return answer


def takes_any_records() -> None:
    """What stands behind a sound header may be junk, and readers are stuck there."""
    admission._check_records = lambda *_: None  # type: ignore[assignment]


def takes_records_without_keys() -> None:
    """A compacted topic holds what compaction cannot sort."""
    admission._check_keys = lambda *_: None  # type: ignore[assignment]


def stumbles_over_garbage() -> None:
    """A header that cannot be decoded is an unexpected error, and not the client's."""
    decode = decode_request_header

    def undecided(frame: Buffer) -> Any:
        try:
            return decode(frame)
        except DecodeError as error:
            raise ValueError(str(error)) from None

    dispatch.decode_request_header = undecided  # type: ignore[attr-defined]  # imported there


def logs_texts_as_they_are() -> None:
    """A transactional id with a newline in it is two lines of the log."""
    log_lines.escaped = lambda text, characters_max=0: text


def has_no_budget_for_answers() -> None:
    """What clients do not read is kept for them, however much it is."""
    ResponseMemory.room_bytes = lambda self, *, has_read: INT32_MAX  # type: ignore[method-assign]
    ResponseMemory.add = lambda self, size_bytes: None  # type: ignore[method-assign]
    ResponseMemory.remove = lambda self, size_bytes: None  # type: ignore[method-assign]


def stumbles_over_tokens() -> None:
    """A message of a login that is no text is an unexpected error, outside of what looks after the mechanisms."""
    sound = _Login._token

    def token(self: _Login, answer: Any, message: bytes) -> None:
        message.decode()
        sound(self, answer, message)

    _Login._token = token  # type: ignore[method-assign]


BUGS: dict[str, Callable[[], None]] = {
    plant.__name__: plant
    for plant in (
        believes_every_header,
        takes_any_records,
        takes_records_without_keys,
        stumbles_over_garbage,
        logs_texts_as_they_are,
        has_no_budget_for_answers,
        stumbles_over_tokens,
    )
}

if __name__ == "__main__":
    bug, *arguments = sys.argv[1:]
    BUGS[bug]()
    sys.exit(main(arguments))
