"""The records of a proof: the input, the expected output, and the difference between it and the output."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from semel.client.values import ConsumerRecord

Value: TypeAlias = bytes | None
Record: TypeAlias = Value | tuple[Value, Value]
"""A value, or a key and a value. If no expected record of a topic has a key, keys are not compared."""
Records: TypeAlias = Mapping[str, Sequence[Record]]
"""The records by topic."""

_SHOWN_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between the expected and the committed records of one topic."""

    topic: str
    missing: Counter[Record]
    extra: Counter[Record]
    places: Mapping[Record, Sequence[str]]
    """The partition and offset of each copy of a record, as text."""

    @classmethod
    def between(
        cls,
        topic: str,
        expected: Sequence[Record],
        seen: Sequence[ConsumerRecord],
        as_compared: Callable[[Value], Value],
    ) -> Difference:
        has_keys = any(isinstance(record, tuple) for record in expected)
        places: dict[Record, list[str]] = defaultdict(list)
        for record in seen:
            value = as_compared(record.value)
            at = f"partition {record.partition} offset {record.offset}"
            places[(record.key, value) if has_keys else value].append(at)
        counts = Counter({record: len(at) for record, at in places.items()})
        wanted = Counter(expected)
        return cls(topic, wanted - counts, counts - wanted, places)

    def as_text(self) -> str:
        missing = [f"{_named(record)} x {count}" for record, count in self.missing.items()]
        extra = [
            f"{_named(record)} x {count} (at {', '.join(self.places[record])})" for record, count in self.extra.items()
        ]
        return (
            f"{self.topic} is wrong for read_committed readers. Missing: {_listed(missing)}. Too many: {_listed(extra)}"
        )


def key_and_value(record: Record) -> tuple[Value, Value]:
    return record if isinstance(record, tuple) else (None, record)


def _named(record: Record) -> str:
    return f"key {record[0]!r} value {record[1]!r}" if isinstance(record, tuple) else repr(record)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN_MAX} more" if len(names) > _SHOWN_MAX else ""
    return f"{', '.join(names[:_SHOWN_MAX])}{more}" if names else "none"
