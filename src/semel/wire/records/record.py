"""One record, as a value."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """A record of a producer, with its offset. A key or value of ``None`` is Kafka's null, not an empty one.

    Header keys should be UTF-8, but no broker checks it. A key that is not UTF-8 is read with ``surrogateescape``, so
    that encoding the record again, as compaction does, gives exactly the same bytes.
    """

    offset: int
    timestamp: int
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
