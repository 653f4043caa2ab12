"""Rows that a table refuses: found by halving the batch, stored with the ledger's line, and sent to the dead-letter
topic.

The law: the rows that were left out are stored in the same commit as the rows that were written. If the batch runs
again, its sink skips it, and the rows left out are read from the ledger: so they too are in their topic exactly once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from typing import Any, Final

from semel.spark.sink.row_partitioning import OFFSET_HEADER, REASON_HEADER, BadRow
from semel.spark.sinks.merging import Merge, quoted

ROW: Final = "semel_row"
"""The column of a staging table that numbers its rows."""
REASON: Final = "semel_refused"
"""The column of a staging table with the reason why a row could not be staged as it is; null for all others."""
SINK_HEADER: Final = "semel-sink"
SOURCE_HEADER: Final = "semel-source"

# The two lengths of a header take at most so many bytes.
_HEADER_OVERHEAD_BYTES: Final = 10

# A database may quote the refused value in its message, however long it is.
_REASON_MAX: Final = 2_000

# If more rows of one batch are refused, the table does not fit the query: then the batch fails.
REFUSED_MAX: Final = 1_000

_SOURCE: Final = {"topic": "semel_topic", "partition": "semel_partition", "offset": "semel_offset"}


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A row that a sink has left out, with its source topic, partition and offset if the DataFrame has such columns."""

    sink: str
    reason: str
    row: Mapping[str, Any]
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None

    def value(self, size_bytes_max: int) -> bytes | None:
        """Return the value of the dead-letter record: the columns of the row, as they were to be written, in JSON.
        ``None`` if the record would be larger than this."""
        text = json.dumps(self.row, ensure_ascii=False).encode()
        headers_bytes = sum(len(name) + len(value) + _HEADER_OVERHEAD_BYTES for name, value in self.headers)
        return text if len(text) + headers_bytes <= size_bytes_max else None

    @property
    def headers(self) -> list[tuple[str, bytes]]:
        said = {SINK_HEADER: self.sink, REASON_HEADER: self.reason}
        if self.topic is not None and self.partition is not None:
            said[SOURCE_HEADER] = f"{self.topic}-{self.partition}"
        if self.offset is not None:
            said[OFFSET_HEADER] = str(self.offset)
        return [(name, text.encode()) for name, text in said.items()]


def as_text(refused: Iterable[RefusedRow]) -> str | None:
    """Return the rows as text for the ledger; ``None`` if there are none."""
    found = [asdict(one) for one in refused]
    return json.dumps(found) if found else None


def parse(text: str | None) -> list[RefusedRow]:
    return [] if text is None else [RefusedRow(**one) for one in json.loads(text)]


def source_columns(names: Sequence[str]) -> list[str]:
    """Return SQL for the columns with a row's source topic, partition and offset, under names that no table has."""
    present = {name.lower(): name for name in names}
    return [f"{present[name]} AS {own}" for name, own in _SOURCE.items() if name in present]


def is_own(column: str) -> bool:
    """Whether a column of the staging table is there for refused rows only, and is not written to the table."""
    return column in (ROW, REASON) or column in _SOURCE.values()


def is_whole(merge: Merge) -> str:
    """Return the condition for the rows of ``staged`` that were staged as they are, with all their keys."""
    return " AND ".join([f"staged.{REASON} IS NULL", *(f"staged.{quoted(key)} IS NOT NULL" for key in merge.keys)])


def refused_row(sink: str, reason: str, staged: Mapping[str, Any]) -> RefusedRow:
    row = {name: _json_value(value) for name, value in staged.items() if not is_own(name)}
    topic, partition, offset = (staged.get(own) for own in _SOURCE.values())
    said = " ".join(reason.split())
    said = said if len(said) <= _REASON_MAX else f"{said[:_REASON_MAX]}..."
    return RefusedRow(sink, said, row, topic, partition, offset)


def merge_in_parts(
    connection: Any,
    merge: Merge,
    staging: str,
    statements: Callable[[str], Iterable[str]],
    bad: tuple[type[Exception], ...],
) -> dict[int, str]:
    """Move the staged rows into the table, except those that it refuses. Returns the reason for each refused row, by
    the row's number.

    It runs within a transaction of the caller, which has numbered the rows. ``statements`` returns the statements for
    the rows that meet a condition. ``bad`` are the exceptions that are about a row. Raises ``BadRow`` if too many rows
    are refused.

    With ``latest_by``, a row that is refused does not count as the latest one of its keys: the row before it is tried.
    """
    whole = is_whole(merge)
    without = connection.execute(f"SELECT {ROW}, {REASON} FROM {staging} AS staged WHERE NOT ({whole})").fetchall()
    no_key = f"no value in one of its keys {', '.join(merge.keys)}"
    refused: dict[int, str] = {number: reason or no_key for number, reason in without}

    def attempt(first: int, last: int) -> str | None:
        connection.execute("SAVEPOINT semel_part")
        try:
            for statement in statements(f"{whole} AND staged.{ROW} BETWEEN {first} AND {last}"):
                connection.execute(statement)
        except bad as error:
            connection.execute("ROLLBACK TO SAVEPOINT semel_part")
            return str(error)
        connection.execute("RELEASE SAVEPOINT semel_part")
        return None

    first, last = connection.execute(f"SELECT min({ROW}), max({ROW}) FROM {staging}").fetchone()
    found = {} if first is None else refused_by_halves(first, last, attempt)
    refused |= found
    check_count(refused)
    while merge.latest_by is not None and found:
        reasons = {number: attempt(number, number) for number in _next_latest(connection, merge, staging, found)}
        found = {number: reason for number, reason in reasons.items() if reason is not None}
        refused |= found
        check_count(refused)
    return refused


def _next_latest(connection: Any, merge: Merge, staging: str, refused: Iterable[int]) -> list[int]:
    """Mark these rows as refused. Returns the numbers of the rows that are now the latest ones of their keys."""
    numbers = ", ".join(map(str, refused))
    connection.execute(f"UPDATE {staging} SET {REASON} = 'refused' WHERE {ROW} IN ({numbers})")
    same = " AND ".join(f"staged.{quoted(key)} = other.{quoted(key)}" for key in merge.keys)
    others = f"SELECT 1 FROM {staging} AS other WHERE other.{ROW} IN ({numbers}) AND {same}"
    rows = merge.one_for_each_key(staging, is_whole(merge), ROW)
    found = connection.execute(f"SELECT {ROW} FROM {rows} AS staged WHERE EXISTS ({others})").fetchall()
    return sorted(number for (number,) in found)


def refused_by_halves(first: int, last: int, attempt: Callable[[int, int], str | None]) -> dict[int, str]:
    """Return the numbers of the refused rows, each with the reason.

    ``attempt`` writes a whole range of rows and returns ``None``, or writes nothing and returns the reason. Ranges are
    tried in the order of the rows: of two rows that exclude each other, the first is written.
    """
    refused: dict[int, str] = {}
    waiting = [(first, last)]
    while waiting:
        begin, end = waiting.pop()
        reason = attempt(begin, end)
        if reason is None:
            continue
        if begin == end:
            refused[begin] = reason
            check_count(refused)
        else:
            middle = (begin + end) // 2
            waiting += [(middle + 1, end), (begin, middle)]
    return refused


def check_count(refused: Mapping[int, str]) -> None:
    if len(refused) > REFUSED_MAX:
        raise BadRow(
            f"more than {REFUSED_MAX} rows of a batch are refused, which is no matter for a dead-letter topic. The "
            f"first: {next(iter(refused.values()))}"
        )


def _json_value(value: Any) -> Any:
    match value:
        case float() if not isfinite(value):
            return str(value)  # JSON has no number for NaN and infinity.
        case None | bool() | int() | float() | str():
            return value
        case bytes() | memoryview():
            return bytes(value).hex()
        case _:
            return str(value)
