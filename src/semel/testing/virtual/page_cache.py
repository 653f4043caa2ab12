"""The content of one simulated file: the content that programs see, the durable content, and the pending changes.

Programs see ``content``. ``durable`` is the content at the last sync. The changes since then are pending, and the
kernel may have written any page of them back at any moment before a power cut. So after a power cut each page (4096
bytes), and the file's size, has the changes up to a moment of its own, and none after it. A later write may therefore
survive without an earlier one, a hole reads as zeros, and of the very last write any prefix may have survived.
"""

from __future__ import annotations

from enum import Enum
from random import Random
from typing import Final, NamedTuple

PAGE_BYTES: Final = 4096


class Unsynced(Enum):
    """What happens to changes that were not synced in a power cut."""

    LOST = "lost"
    KEPT = "kept"
    ANY = "any"
    """A random part of the changes survives: for a quarter of the files all, for a quarter none."""


class Change(NamedTuple):
    """A write of ``data`` at ``position``, or, if ``data`` is ``None``, a truncation or extension to that size."""

    position: int
    data: bytes | None

    def apply(self, content: bytearray) -> None:
        if self.data is None:
            resize(content, self.position)
        else:
            if self.position > len(content):
                resize(content, self.position)
            content[self.position : self.position + len(self.data)] = self.data


class CachedFile:
    """The content of one file, independent of its name. An open file that was removed has a content but no name."""

    __slots__ = ("content", "durable", "pending")

    def __init__(self) -> None:
        self.content = bytearray()
        self.durable = bytearray()
        self.pending: list[Change] = []

    def change(self, change: Change) -> None:
        change.apply(self.content)
        self.pending.append(change)

    def sync(self) -> None:
        for change in self.pending:
            change.apply(self.durable)
        self.pending.clear()

    def fail_to_sync(self, random: Random) -> None:
        """Simulate a failed sync as on Linux: the pages count as clean, and no later sync writes them.

        Some of them may have been written. Programs still see all of them until the pages are evicted from the cache,
        which happens at once here with a probability of one half.
        """
        self.durable = self._after_power_cut(random, Unsynced.ANY)
        self.pending.clear()
        if random.random() < 0.5:
            self.content = bytearray(self.durable)

    def power_cut(self, random: Random, unsynced: Unsynced) -> None:
        self.content = self._after_power_cut(random, unsynced)
        self.durable = bytearray(self.content)
        self.pending.clear()

    def copy(self) -> CachedFile:
        other = CachedFile()
        other.content[:] = self.content
        other.durable[:] = self.durable
        other.pending = list(self.pending)
        return other

    def _after_power_cut(self, random: Random, unsynced: Unsynced) -> bytearray:
        if unsynced is Unsynced.ANY:
            unsynced = random.choice((Unsynced.LOST, Unsynced.KEPT, Unsynced.ANY, Unsynced.ANY))
        if unsynced is Unsynced.ANY:
            return _written_back(self.durable, self.pending, random)
        content = bytearray(self.durable)
        if unsynced is Unsynced.KEPT:
            for change in self.pending:
                change.apply(content)
        return content


_SIZE: Final = -1  # A page number for the file's size, which is also written back at a moment of its own.


def _written_back(durable: bytearray, changes: list[Change], random: Random) -> bytearray:
    """Return ``durable`` with, for every page, the changes made before the random moment of its last write-back."""
    content = bytearray(durable)
    size = seen_size = len(durable)
    moments: dict[int, int] = {}

    def survives(number: int, page: int) -> bool:
        if page not in moments:
            moments[page] = random.randint(0, len(changes))
        return number < moments[page]

    for number, (position, data) in enumerate(changes):
        if data is None:
            seen_size = position
            if survives(number, _SIZE):
                # Bytes that a truncation has removed never appear again, no matter which pages survive.
                resize(content, position)
        else:
            if number == len(changes) - 1:
                data = data[: random.randint(0, len(data))]
            stop = position + len(data)
            seen_size = max(seen_size, stop)
            for page in range(position // PAGE_BYTES, -(-stop // PAGE_BYTES)):
                if survives(number, page):
                    first, last = max(position, page * PAGE_BYTES), min(stop, (page + 1) * PAGE_BYTES)
                    Change(first, data[first - position : last - position]).apply(content)
        if survives(number, _SIZE):
            size = seen_size
    resize(content, size)
    return content


def resize(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))
