"""Deserializers: from the bytes of keys and values to the objects of an application.

The law: a record that cannot be deserialized is neither lost nor skipped. The records before it are returned, the
position stays before it, and the next poll raises an error that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from semel.client.values import ConsumerRecord
from semel.errors import SemelError
from semel.types import TopicPartition

T = TypeVar("T")

Deserializer: TypeAlias = Callable[[bytes], T]
"""Returns the object for the bytes of a key or value. It is not called for null, which stays ``None``."""


class DeserializationError(SemelError):
    """A deserializer raised; its exception is the ``__cause__``.

    ``partition`` and ``offset`` name the record. To skip it, ``seek`` to the next offset.
    """

    def __init__(self, partition: TopicPartition, offset: int, cause: Exception) -> None:
        super().__init__(f"the record at offset {offset} of {partition} cannot be deserialized: {cause!r}")
        self.partition = partition
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Deserializers:
    key: Deserializer[Any] | None = None
    value: Deserializer[Any] | None = None

    @property
    def exist(self) -> bool:
        return self.key is not None or self.value is not None

    def applied(
        self, records: Sequence[ConsumerRecord], seek: Callable[[TopicPartition, int], None]
    ) -> list[ConsumerRecord[Any, Any]]:
        """Return the records, up to the first that fails; ``seek`` puts back that one and those behind it."""
        done: list[ConsumerRecord[Any, Any]] = []
        for index, record in enumerate(records):
            try:
                done.append(self._applied(record))
            except Exception as error:
                for left in reversed(records[index:]):
                    seek(TopicPartition(left.topic, left.partition), left.offset)
                if done:
                    break
                raise DeserializationError(
                    TopicPartition(record.topic, record.partition), record.offset, error
                ) from error
        return done

    def _applied(self, record: ConsumerRecord) -> ConsumerRecord[Any, Any]:
        key: Any = record.key
        value: Any = record.value
        if key is not None and self.key is not None:
            key = self.key(key)
        if value is not None and self.value is not None:
            value = self.value(value)
        return record._replace(key=key, value=value)
