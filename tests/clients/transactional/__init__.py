"""Transactions in three client libraries, in the same few words, so that one test is about the broker."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Literal, Protocol

Isolation = Literal["read_committed", "read_uncommitted"]


class Fenced(Exception):
    """The library says that another instance has taken the transactional id over, or that it was too slow."""


class TransactionalProducer(Protocol):
    """A producer whose transactional id is initialised."""

    def begin(self) -> None: ...

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        """Send and wait until it is acknowledged. Raises Fenced."""

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        """The offset of partition 0, as a part of the transaction."""

    def commit(self) -> None:
        """Raises Fenced."""

    def abort(self) -> None: ...


class TransactionalLibrary(Protocol):
    name: str

    def producer(
        self, bootstrap_servers: str, transactional_id: str, *, timeout_ms: int = 60_000
    ) -> AbstractContextManager[TransactionalProducer]: ...

    def read(self, bootstrap_servers: str, topic: str, isolation: Isolation, *, until: bytes) -> list[bytes]:
        """All values of partition 0 up to, and without, the one that is ``until``."""

    def committed(self, bootstrap_servers: str, group: str, topic: str) -> int | None:
        """The offset that is committed for partition 0."""
