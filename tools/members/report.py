"""The reports of a member on its standard output, one line for each event."""

from __future__ import annotations

from collections.abc import Iterable


def assigned(partitions: Iterable[int]) -> None:
    _print("assigned", map(str, sorted(partitions)))


def revoked(partitions: Iterable[int]) -> None:
    _print("revoked", map(str, sorted(partitions)))


def read(records: Iterable[tuple[int, int]]) -> None:
    """Report the partitions and offsets of records that were read, and are not committed yet."""
    _print("read", (f"{partition}:{offset}" for partition, offset in records))


def committed(offsets: Iterable[tuple[int, int]]) -> None:
    """Report offsets whose commit the broker has acknowledged, each one past the last record that was read."""
    _print("committed", (f"{partition}:{offset}" for partition, offset in offsets))


def error(error: object) -> None:
    """Report an error of the library, on one line."""
    _print("error", [" ".join(f"{type(error).__name__} {error}".split())])


def _print(what: str, values: Iterable[str]) -> None:
    print(what, *values, flush=True)
