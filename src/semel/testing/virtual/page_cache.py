"""The content of one simulated file: what programs see, what a power cut leaves, and what lies between the two.

Programs see ``content``. ``durable`` is what was synced. The changes since then are pending, and the kernel may have
written any page of them back at any moment before the lights go out. So each page (4096 bytes) and the file's size has
its own moment: it holds the changes made before that moment and none made after. A later write may thus survive without
an earlier one, a hole reads as zeros, and the very last write may be torn at any byte.
"""

from __future__ import annotations

from enum import Enum
from random import Random
from typing import Final, NamedTuple

PAGE_BYTES: Final = 4096


class Unsynced(Enum):
    """What a power cut does with what was not synced."""

    LOST = "lost"
    KEPT = "kept"
    ANY = "any"
    """Some of it, as chance will have it: for a quarter of the files all, for a quarter nothing."""


class Change(NamedTuple):
    """Bytes written at a position, or the file cut (or extended) to it."""

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
    """One file, whatever its name is, and while it is open even if it has none."""

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
        """What Linux does after a failed sync: the pages count as clean, and no later sync will write them.

        Some of them may have been written. Programs go on seeing all of it, until the pages are evicted and read again.
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


_SIZE: Final = -1  # The file's size, among the numbers of its pages: it too is written back at a moment of its own.


def _written_back(durable: bytearray, changes: list[Change], random: Random) -> bytearray:
    """``durable`` with, for every page, the changes that came before the moment at which it was written back."""
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
                # What a file was cut back from never shows through again, whichever of its pages survive.
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
