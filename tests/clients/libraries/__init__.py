"""The same few actions in three client libraries, so that one test can be about the broker and not about a client.

What is special to one library (its admin calls, its errors) is tested in a file of its own, in its own words.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from tests.clients.libraries.sending import PLAIN, Sending
from tools.patience import PATIENCE_S

CREATE_TIME, LOG_APPEND_TIME = "CreateTime", "LogAppendTime"


@dataclass(frozen=True, slots=True)
class Record:
    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """A record as it was read: its timestamp is the broker's word."""

    offset: int
    timestamp_type: str
    record: Record


@dataclass(frozen=True, slots=True)
class Since:
    """Start with the first record whose timestamp is not earlier."""

    timestamp_ms: int


Start = Literal["earliest", "latest"] | int | Since


class TooLarge(Exception):
    """The broker answered MESSAGE_TOO_LARGE."""


class Reader(Protocol):
    def read(self, count: int, timeout_s: float = PATIENCE_S) -> list[Stored]:
        """The next ``count`` records, or fewer when the time is over."""


class Library(Protocol):
    name: str

    def produce(
        self, bootstrap_servers: str, topic: str, records: Sequence[Record], how: Sending = PLAIN
    ) -> list[int | None]:
        """Write to partition 0 and return the offsets acknowledged, in the order given (None: acks=0 tells none)."""

    def reader(
        self, bootstrap_servers: str, topic: str, start: Start, *, fetch_max_wait_ms: int = 500
    ) -> AbstractContextManager[Reader]:
        """A reader of partition 0 that stands at ``start`` when it is entered, without a consumer group."""
