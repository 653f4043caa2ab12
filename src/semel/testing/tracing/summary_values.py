"""Values that the summaries of messages are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias
from uuid import UUID

Fields: TypeAlias = dict[str, Any]
Names: TypeAlias = Mapping[UUID, str]
"""Topics by their ids."""


def present(values: Mapping[str, Any]) -> Fields:
    """Without what is absent or empty."""
    return {name: value for name, value in values.items() if value not in (None, "", [])}


def _at(topic: str, topic_id: UUID | None, index: int, names: Names) -> str:
    name = topic or (str(topic_id) if topic_id is None else names.get(topic_id, str(topic_id)))
    return f"{name}:{index}"


def each_partition(topics: Iterable[Any], partitions: str, index: str, names: Names) -> Iterator[tuple[str, Any]]:
    """Every partition under every topic, with its name."""
    for topic in topics or ():
        name: str = getattr(topic, "name", None) or getattr(topic, "topic", None) or ""
        for entry in getattr(topic, partitions):
            number = entry if isinstance(entry, int) else getattr(entry, index)
            yield _at(name, getattr(topic, "topic_id", None), number, names), entry
