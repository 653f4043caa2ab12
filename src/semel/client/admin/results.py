"""What comes back from a call about many things: for each of them its value or its error."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from semel.errors import KafkaError

K = TypeVar("K")
V = TypeVar("V")


class Results(Mapping[K, V]):
    """A mapping that raises where there is an error: ``results[key]`` is the value, or raises what went wrong with it.

        results = await admin.topics.delete_many(["orders", "gone"])
        results.all()                # a dict of all values; raises the first error if there is one
        results.failed               # {"gone": RetriableError("UNKNOWN_TOPIC_OR_PARTITION: ...")}
        results.succeeded            # {"orders": None}

    So nothing that failed can be taken for something that did not, unless the result is not looked at: ``all()`` is how
    to look at everything at once.
    """

    __slots__ = ("_order", "failed", "succeeded")

    def __init__(self, keys: Iterable[K], succeeded: Mapping[K, V], failed: Mapping[K, KafkaError]) -> None:
        self._order = tuple(keys)
        self.succeeded = {key: succeeded[key] for key in self._order if key in succeeded}
        self.failed = {key: failed[key] for key in self._order if key in failed}

    def all(self) -> dict[K, V]:
        """Every value; raises the first error if there is one."""
        for error in self.failed.values():
            raise error
        return self.succeeded

    def updated(self, later: Results[K, V]) -> Results[K, V]:
        """These, but what ``later`` knows counts."""
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
