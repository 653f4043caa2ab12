"""The value of ``/sequence``: the paths that the last commits changed.

The number of the last commit is not in it: it is the data version of the node, which grows by one with every commit.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from semel.errors import DecodeError

# A process that is behind by more commits, or by commits with more or longer paths than these, reads everything.
HISTORY_COMMITS_MAX: Final = 50
HISTORY_PATHS_MAX: Final = 500
# Every commit has the history in it, and must have room for more. Paths have names of clients in them, of ACLs for one.
HISTORY_BYTES_MAX: Final = 128 * 1024


@dataclass(frozen=True, slots=True)
class Commit:
    number: int
    paths: tuple[str, ...] | None
    """The paths that it changed; ``None`` if they are too many or too long."""

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.paths or ()))


@dataclass(frozen=True, slots=True)
class History:
    """The last commits, oldest first."""

    commits: tuple[Commit, ...] = ()

    def with_commit(self, number: int, paths: tuple[str, ...]) -> History:
        """Return the history with one more commit. Every commit writes all of it, so it is kept small."""
        last = Commit(number, paths)
        if len(paths) > HISTORY_PATHS_MAX or last.size_bytes > HISTORY_BYTES_MAX:
            last = Commit(number, None)
        kept = [last]
        left_paths, left_bytes = HISTORY_PATHS_MAX - len(last.paths or ()), HISTORY_BYTES_MAX - last.size_bytes
        for commit in reversed(self.commits):
            left_paths -= len(commit.paths or ())
            left_bytes -= commit.size_bytes
            if left_paths < 0 or left_bytes < 0 or len(kept) == HISTORY_COMMITS_MAX:
                break
            kept.append(commit)
        return History(tuple(reversed(kept)))

    def changed_between(self, number: int, last: int) -> set[str] | None:
        """The paths that the commits after ``number``, up to ``last``, changed; ``None`` if they are not all known."""
        later = [commit for commit in self.commits if commit.number > number]
        if [commit.number for commit in later] != list(range(number + 1, last + 1)):
            return None
        paths: set[str] = set()
        for commit in later:
            if commit.paths is None:
                return None
            paths.update(commit.paths)
        return paths

    def encode(self) -> bytes:
        commits = [{"number": commit.number, "paths": commit.paths} for commit in self.commits]
        return json.dumps({"version": 1, "commits": commits}).encode()

    @classmethod
    def decode(cls, data: bytes) -> History:
        """Decode the value of the node. Raises DecodeError."""
        if not data:
            return cls()
        try:
            commits = [
                Commit(one["number"], None if one["paths"] is None else tuple(one["paths"]))
                for one in json.loads(data)["commits"]
            ]
        except (ValueError, KeyError, TypeError) as error:
            raise DecodeError(f"/sequence holds no history of commits: {error!r}") from None
        return cls(tuple(commits))
