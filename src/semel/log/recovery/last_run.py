"""The ``last-run`` file of a data directory: whether the machine died in the last run, and which logs lost records.

A broker that registers in a cluster must know both. With flush=os, records that it has acknowledged may be lost when
the machine dies; and a disk may lose records that were synced. Then the broker leaves the in-sync sets, in the commit
that registers it.

    version: 1
    boot_id: 3f2c...            of the machine while the broker ran; "clean" after a stop that synced everything
    unsynced: yes               only if the run acknowledged records before they were synced (flush=os)
    lost: <topic id> <partition>

The law: a loss that was found stays in the file until the cluster knows it (``losses_reported``), however often the
process dies before. If the file is missing or damaged in a directory with logs, the machine is assumed to have died.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from semel.errors import DecodeError
from semel.log import checked_text
from semel.log.disk import NO_ROOM, Disk, read_file, replace_file
from semel.types import kafka_uuid, parse_kafka_uuid

LAST_RUN_FILE: Final = "last-run"
VERSION: Final = 1

_CLEAN: Final = "clean"
_UNKNOWN: Final = "unknown"

Lost = frozenset[tuple[UUID, int]]
"""The logs that have lost records, by topic id and partition."""


@dataclass(slots=True)
class LastRun:
    """The content of the file. ``machine_died``: whether records that the last run did not sync may be lost.
    ``was_unsynced``: whether it acknowledged records before they were synced, as far as the file says. ``is_unsynced``:
    whether this run does. ``is_first``: whether there was no run before."""

    disk: Disk
    path: str
    machine_died: bool
    lost: Lost
    _recorded: str | None
    was_unsynced: bool = False
    is_unsynced: bool = False
    is_first: bool = False

    @classmethod
    def read(cls, disk: Disk, folder: str, *, has_logs: bool, is_unsynced: bool = False) -> LastRun:
        path = f"{folder}/{LAST_RUN_FILE}"
        try:
            recorded, was_unsynced, lost = _decode(read_file(disk, path))
        except (FileNotFoundError, DecodeError):
            return cls(disk, path, has_logs, frozenset(), None, is_unsynced=is_unsynced, is_first=not has_logs)
        machine_died = recorded not in (_CLEAN, disk.boot_id())
        return cls(disk, path, machine_died, lost, recorded, was_unsynced, is_unsynced)

    def started(self) -> None:
        """Write the machine's boot id, before anything is appended: if the machine dies, the next start must know it.

        Raises ``OSError``.
        """
        if self.machine_died:
            return
        try:
            self._write(self.disk.boot_id() or _UNKNOWN, self.lost, self.is_unsynced)
        except OSError as error:
            if error.errno not in NO_ROOM or self.lost:
                raise
            # Without the file, the next start assumes that the machine died.
            self.disk.remove(self.path)
            self.disk.sync_directory(os.path.dirname(self.path))
            self._recorded = None

    def found_lost(self, found: Iterable[tuple[UUID, int]]) -> None:
        """Record that these logs have lost records, before the evidence of it is overwritten. Raises ``OSError``."""
        lost = self.lost.union(found)
        if lost != self.lost:
            self._write(self._recorded or _UNKNOWN, lost, self.was_unsynced)

    def losses_reported(self, *, but: Iterable[tuple[UUID, int]] = ()) -> None:
        """Clear the losses, because the cluster knows them: the broker has left the in-sync sets. Raises ``OSError``.

        ``but``: the logs whose damage was found since the start. They stay in the file, because the next start has to
        read them from end to end.
        """
        self._write(self.disk.boot_id() or _UNKNOWN, self.lost.intersection(but), self.is_unsynced)
        self.machine_died = False

    def stopped(self) -> None:
        """Record a clean stop: everything is synced, and nothing more is written. Raises ``OSError``."""
        if not self.machine_died:
            self._write(_CLEAN, self.lost, False)

    def _write(self, boot_id: str, lost: Lost, unsynced: bool) -> None:
        if (boot_id, lost, unsynced) != (self._recorded, self.lost, self.was_unsynced):
            replace_file(self.disk, self.path, _encode(boot_id, lost, unsynced))
            self._recorded, self.lost, self.was_unsynced = boot_id, lost, unsynced


def problem_in(disk: Disk, folder: str) -> str | None:
    """The problem with the ``last-run`` file of a data directory, as a text; ``None`` if it is sound or missing."""
    try:
        _decode(read_file(disk, f"{folder}/{LAST_RUN_FILE}"))
    except FileNotFoundError:
        return None
    except DecodeError as error:
        return str(error)
    return None


def _encode(boot_id: str, lost: Lost, unsynced: bool) -> bytes:
    lines = sorted((kafka_uuid(topic_id), partition) for topic_id, partition in lost)
    return checked_text.encode(
        (
            ("version", VERSION),
            ("boot_id", boot_id),
            *((("unsynced", "yes"),) if unsynced else ()),
            *(("lost", f"{topic} {partition}") for topic, partition in lines),
        )
    )


def _decode(data: bytes) -> tuple[str, bool, Lost]:
    fields = checked_text.decode(data, version=VERSION)
    keys = [key for key, _ in fields]
    unsynced = keys[1:2] == ["unsynced"]
    if keys[:1] != ["boot_id"] or any(key != "lost" for key in keys[1 + unsynced :]):
        raise DecodeError(f"its fields are {keys}")
    try:
        return fields[0][1], unsynced, frozenset(_lost(value) for _, value in fields[1 + unsynced :])
    except ValueError as error:
        raise DecodeError(str(error)) from None


def _lost(text: str) -> tuple[UUID, int]:
    topic_id, partition = text.split(" ")
    return parse_kafka_uuid(topic_id), int(partition)
