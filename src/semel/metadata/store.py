"""The interface of the metadata store: a tree of small values, each changed by compare-and-set.

Two stores implement this contract: ``embedded``, for one node, with two files; and ``zookeeper``, for several nodes.
``tests/metadata/test_store_contract.py`` is the contract as tests, and runs on both:

- A path looks like ``/topics/orders``. A value is bytes. A version names one value at one path; it changes with every
  write, and only the store knows how it counts.
- ``commit`` applies all of its operations or none. Once it has returned, every change survives a power cut. If it
  raises ``VersionConflict``, nothing was changed; if it raises anything else, the outcome is unknown.
- A watch reports that a value may have changed, not the new value: read it again. Before ``commit`` returns, every
  watch in the same process has been called with its changes.
- An ephemeral value lives as long as the session that wrote it: until ``close``, or until the process ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from semel.errors import SemelError


class Versioned(NamedTuple):
    value: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Put:
    """Write a value, over the expected version; with ``None``, only if there is no value yet."""

    path: str
    value: bytes
    expected_version: int | None
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    path: str
    expected_version: int


@dataclass(frozen=True, slots=True)
class Check:
    """Change nothing, but commit the other operations only if the path still has this version (``None``: no value)."""

    path: str
    expected_version: int | None


Operation: TypeAlias = Put | Delete | Check


class VersionConflict(SemelError):
    """Another commit changed a value first. Nothing was changed; read again and decide again."""

    def __init__(self, path: str, *, expected_version: int | None, version: int | None) -> None:
        super().__init__(f"{path} is {_said(version)}; expected it to be {_said(expected_version)}")
        self.path = path
        self.expected_version = expected_version
        self.version = version


class MetadataStore(Protocol):
    commit_bytes_max: int | None
    """About how many bytes a commit may have; ``None``: any number."""

    async def get(self, path: str) -> Versioned | None:
        """Return the value at a path, at least as new as everything that this process has received before."""

    async def children(self, path: str) -> list[str]:
        """Return the names directly below a path, sorted; none if it does not exist."""

    async def commit(self, operations: Sequence[Operation]) -> list[int | None]:
        """Apply all operations or none. Returns the new version of each value put, ``None`` for other operations.

        Every path may be in one operation at most. Raises ``VersionConflict`` for the first operation whose expected
        version is wrong.
        """

    async def refresh(self) -> None:
        """Return when everything that any process committed before this call can be read here."""

    def watch(self, prefix: str, changed: Callable[[str], None]) -> Callable[[], None]:
        """Call ``changed`` with every path at or below ``prefix`` that changes, until the function returned is called.

        If the store does not know what changed, it calls ``changed`` with ``prefix``: any value below may be different.
        """

    async def close(self) -> None:
        """End the session: its ephemeral values are gone. Changes already submitted are finished first."""


async def compare_and_set(store: MetadataStore, path: str, value: bytes, expected_version: int | None) -> int:
    """Commit one ``Put``. Returns the new version."""
    (version,) = await store.commit([Put(path, value, expected_version)])
    assert version is not None
    return version


def _said(version: int | None) -> str:
    return "absent" if version is None else f"at version {version}"
