"""The results of a call about many things: for each of them its value or its error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from semel.errors import KafkaError

K = TypeVar("K")
V = TypeVar("V")


class Results(Mapping[K, V]):
    """A mapping that raises where there is an error: ``results[key]`` is the value, or raises the error of that key.

        results = await admin.topics.delete_many(["orders", "gone"])
        results.all()                # a dict of all values; raises the first error if there is one
        results.failed               # {"gone": RetriableError("UNKNOWN_TOPIC_OR_PARTITION: ...")}
        results.succeeded            # {"orders": None}

    So a failure cannot be taken for a success, unless the results are not looked at: ``all()`` checks all of them at
    once.
    """

    __slots__ = ("_order", "failed", "succeeded")

    def __init__(self, keys: Iterable[K], succeeded: Mapping[K, V], failed: Mapping[K, KafkaError]) -> None:
        self._order = tuple(keys)
        self.succeeded = {key: succeeded[key] for key in self._order if key in succeeded}
        self.failed = {key: failed[key] for key in self._order if key in failed}

    def all(self) -> dict[K, V]:
        """Return every value; raises the first error if there is one."""
        for error in self.failed.values():
            raise error
        return self.succeeded

    def updated(self, later: Results[K, V]) -> Results[K, V]:
        """Return these results, replaced by those of ``later`` where it has a key."""
        failed = {key: error for key, error in self.failed.items() if key not in later.succeeded}
        return Results(self._order, {**self.succeeded, **later.succeeded}, {**failed, **later.failed})

    def __getitem__(self, key: K) -> V:
        if key in self.failed:
            raise self.failed[key]
        return self.succeeded[key]

    def __contains__(self, key: object) -> bool:
        return key in self.succeeded or key in self.failed

    def __iter__(self) -> Iterator[K]:
        return iter(self._order)

    def __len__(self) -> int:
        return len(self._order)

    def __repr__(self) -> str:
        done = ", ".join(map(str, self.succeeded)) or "none"
        failed = "; ".join(f"{key}: {error}" for key, error in self.failed.items()) or "none"
        return f"<Results succeeded: {done}; failed: {failed}>"
