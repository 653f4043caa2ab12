"""Rows that a table does not take: found by halving the batch, kept with the ledger's line, and told to the dead-letter
topic.

The law: a row that was left out is in the same commit as the rows that were taken. A batch that runs again is skipped
by its sink, and what the sink left out is then read from its ledger: so it is in the topic once, as all else.
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
SINK_HEADER: Final = "semel-sink"
SOURCE_HEADER: Final = "semel-source"

# More of them in one batch are no bad rows, but a table that does not fit.
REFUSED_MAX: Final = 1_000

_SOURCE: Final = {"topic": "semel_topic", "partition": "semel_partition", "offset": "semel_offset"}


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A row that a sink has left out, and where it came from, as far as the DataFrame has the columns."""

    sink: str
    reason: str
    row: Mapping[str, Any]
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None

    @property
    def value(self) -> bytes:
        """The record's: the columns as they were to be written, in JSON."""
        return json.dumps(self.row, ensure_ascii=False).encode()

    @property
    def headers(self) -> list[tuple[str, bytes]]:
        said = {SINK_HEADER: self.sink, REASON_HEADER: self.reason}
        if self.topic is not None and self.partition is not None:
            said[SOURCE_HEADER] = f"{self.topic}-{self.partition}"
        if self.offset is not None:
            said[OFFSET_HEADER] = str(self.offset)
        return [(name, text.encode()) for name, text in said.items()]


def as_text(refused: Iterable[RefusedRow]) -> str | None:
    """For the ledger."""
    found = [asdict(one) for one in refused]
    return json.dumps(found) if found else None


def parse(text: str | None) -> list[RefusedRow]:
    return [] if text is None else [RefusedRow(**one) for one in json.loads(text)]


def source_columns(names: Sequence[str]) -> list[str]:
    """SQL for the columns that tell where a row came from, under names that no table has."""
    present = {name.lower(): name for name in names}
    return [f"{present[name]} AS {own}" for name, own in _SOURCE.items() if name in present]


def is_own(column: str) -> bool:
    """Whether a staged column is for refused rows only, and not written."""
    return column == ROW or column in _SOURCE.values()


def refused_row(sink: str, reason: str, staged: Mapping[str, Any]) -> RefusedRow:
    row = {name: _json_value(value) for name, value in staged.items() if not is_own(name)}
    topic, partition, offset = (staged.get(own) for own in _SOURCE.values())
    return RefusedRow(sink, " ".join(reason.split()), row, topic, partition, offset)


def merge_in_parts(
    connection: Any,
    merge: Merge,
    staging: str,
    statements: Callable[[str], Iterable[str]],
    bad: tuple[type[Exception], ...],
) -> dict[int, str]:
    """Bring the staged rows into the table, all but those that it does not take. Returns why, by the row's number.

    ``statements`` of the rows for which a condition holds. ``bad`` are the errors that are about a row. Raises
    ``BadRow`` if there are too many. Within a transaction of the caller, who numbers the rows.
    """
    keys = " AND ".join(f"staged.{quoted(key)} IS NOT NULL" for key in merge.keys)
    refused: dict[int, str] = {}
    if keys:
        without_key = connection.execute(f"SELECT {ROW} FROM {staging} AS staged WHERE NOT ({keys})").fetchall()
        refused = {number: f"no value in one of its keys {', '.join(merge.keys)}" for (number,) in without_key}

    def attempt(first: int, last: int) -> str | None:
        connection.execute("SAVEPOINT semel_part")
        try:
            for statement in statements(f"{keys or 'true'} AND staged.{ROW} BETWEEN {first} AND {last}"):
                connection.execute(statement)
        except bad as error:
            connection.execute("ROLLBACK TO SAVEPOINT semel_part")
            return str(error)
        connection.execute("RELEASE SAVEPOINT semel_part")
        return None

    first, last = connection.execute(f"SELECT min({ROW}), max({ROW}) FROM {staging}").fetchone()
    if first is not None:
        refused |= refused_by_halves(first, last, attempt)
    check_count(refused)
    return refused


def refused_by_halves(first: int, last: int, attempt: Callable[[int, int], str | None]) -> dict[int, str]:
    """The numbers of the rows that are refused, each with the reason. ``attempt`` takes a range as a whole, or says why
    it does not. In the order of the rows: of two that exclude each other, the first is taken."""
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
            return str(value)  # JSON has no number for it.
        case None | bool() | int() | float() | str():
            return value
        case bytes() | memoryview():
            return bytes(value).hex()
        case _:
            return str(value)
