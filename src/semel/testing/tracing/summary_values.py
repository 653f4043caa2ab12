"""Types and functions that the summaries of messages share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias
from uuid import UUID

Fields: TypeAlias = dict[str, Any]
Names: TypeAlias = Mapping[UUID, str]
"""The names of topics by topic id."""


def present(values: Mapping[str, Any]) -> Fields:
    """Return the values without those that are absent or empty."""
    return {name: value for name, value in values.items() if value not in (None, "", [])}


def _at(topic: str, topic_id: UUID | None, index: int, names: Names) -> str:
    name = topic or (str(topic_id) if topic_id is None else names.get(topic_id, str(topic_id)))
    return f"{name}:{index}"


def each_partition(topics: Iterable[Any], partitions: str, index: str, names: Names) -> Iterator[tuple[str, Any]]:
    """Return every partition of every topic as its name (``orders:0``) and its entry in the message.

    ``partitions`` and ``index`` are the names of the message's fields for them.
    """
    for topic in topics or ():
        name: str = getattr(topic, "name", None) or getattr(topic, "topic", None) or ""
        for entry in getattr(topic, partitions):
            number = entry if isinstance(entry, int) else getattr(entry, index)
            yield _at(name, getattr(topic, "topic_id", None), number, names), entry
