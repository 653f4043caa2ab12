"""One record, as a value."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """What a producer wrote and where it stands. A key or value of ``None`` is Kafka's null, not an empty one.

    Header keys are UTF-8 on the wire, but no broker checks it. A key that is not is read with ``surrogateescape``, so
    that writing the record again, as compaction does, gives back the very same bytes.
    """

    offset: int
    timestamp: int
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers = ()
