"""Where the cluster's metadata lives: a tree of small values, each changed by compare-and-set.

Two stores keep this contract: ``embedded``, one node and two files; and ``zookeeper``, for several nodes.
``tests/metadata/test_store_contract.py`` is the contract as tests, and runs on both:

- A path looks like ``/topics/orders``. A value is bytes. A version names one value at one path; it changes with every
  write, and only the store knows how it counts.
- ``commit`` applies all of its operations or none. Once it has returned, every change survives a power cut. If it
  raises ``VersionConflict``, nothing was changed; if it raises anything else, the outcome is unknown.
- A watch says that something may have changed, not what: read again. Before a change is reported to its author, every
  watch in the same process has been called.
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
    """Write a value: over the version expected, or, with ``None``, where there is nothing yet."""

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
    """Change nothing here, but only commit the rest if this path still has this version (``None``: is absent)."""

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
    """About how many bytes of values a commit may have; ``None``: any."""

    async def get(self, path: str) -> Versioned | None:
        """The value at a path, at least as new as anything this process has been told."""

    async def children(self, path: str) -> list[str]:
        """The names directly below a path, sorted; none if it does not exist."""

    async def commit(self, operations: Sequence[Operation]) -> list[int | None]:
        """Apply all or none; the new version of each value put, ``None`` for the other operations.

        Every path stands in at most one operation. Raises ``VersionConflict`` for the first that does not hold.
        """

    async def refresh(self) -> None:
        """Returns when everything that any process committed before this call can be read here."""

    def watch(self, prefix: str, changed: Callable[[str], None]) -> Callable[[], None]:
        """Call ``changed`` with every path at or below ``prefix`` that changes, until the function returned is called.

        When the store cannot tell what changed, it calls with ``prefix`` itself: anything below may be different.
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
