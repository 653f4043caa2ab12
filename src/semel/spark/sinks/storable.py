"""Values that a column in Spark can have and no column of a database can: text that is not UTF-8, dates before year 1.

Spark does not check text: ``string(value)`` of any bytes is a text. A database refuses such a value when it is staged,
and would refuse the rows around it as well. So these values are found before, and their rows are refused one by one.
"""

from __future__ import annotations

from datetime import date
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_EPOCH: Final = date(1970, 1, 1).toordinal()
_FIRST_DAY: Final = date.min.toordinal() - _EPOCH
_LAST_DAY: Final = date.max.toordinal() - _EPOCH
# 32767-12-31, the last day that Arrow can write as text.
_LAST_DAY_AS_TEXT: Final = 11_248_737
_DAY_US: Final = 86_400_000_000


def storable(
    rows: pa.RecordBatch | pa.Table, *, takes_zero: bool, takes_late_dates: bool
) -> tuple[list[pa.Array], list[str | None]]:
    """Return the columns, with a substitute for each value that cannot be stored, and for each row the reason if it has
    such a value.

    ``takes_zero``: the database accepts the character 0 in texts. ``takes_late_dates``: it accepts dates after 9999.
    They are sent as text, which ends with the year 32767.
    """
    reasons: list[str | None] = [None] * rows.num_rows
    columns = []
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        kept, faults = whole, dict[int, str]()
        if pa.types.is_string(whole.type) or pa.types.is_large_string(whole.type):
            kept, faults = _texts(whole, takes_zero)
        elif pa.types.is_date(whole.type) or pa.types.is_timestamp(whole.type):
            kept, faults = _dates(whole, takes_late_dates)
        columns.append(kept)
        for row, reason in faults.items():
            reasons[row] = reasons[row] or f"column {name}: {reason}"
    return columns, reasons


def _texts(column: pa.Array, takes_zero: bool) -> tuple[pa.Array, dict[int, str]]:
    if _is_utf8(column) and (takes_zero or not pc.any(pc.match_substring(column, "\0")).as_py()):
        return column, {}
    faults: dict[int, str] = {}
    texts: list[str | None] = []
    for row, value in enumerate(column.cast(pa.large_binary()).to_pylist()):
        text = None if value is None else value.decode(errors="backslashreplace")
        if value is not None and not _decodes(value):
            faults[row] = "the text is not UTF-8"
        elif text is not None and not takes_zero and "\0" in text:
            faults[row] = "the text has the character 0"
        texts.append(text.replace("\0", "\\x00") if text is not None and row in faults else text)
    return pa.array(texts, column.type), faults


def _is_utf8(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _decodes(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _dates(column: pa.Array, takes_late_dates: bool) -> tuple[pa.Array, dict[int, str]]:
    last_day, last_year = (_LAST_DAY_AS_TEXT, 32_767) if takes_late_dates else (_LAST_DAY, 9_999)
    if pa.types.is_timestamp(column.type):
        numbers = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
        first, last = _FIRST_DAY * _DAY_US, (last_day + 1) * _DAY_US - 1
    else:
        numbers, first, last = column.cast(pa.date32()).cast(pa.int32()), _FIRST_DAY, last_day
    is_early = pc.fill_null(pc.less(numbers, first), False)
    is_late = pc.fill_null(pc.greater(numbers, last), False)
    is_wrong = pc.or_(is_early, is_late)
    if not pc.any(is_wrong).as_py():
        return column, {}
    early = is_early.to_pylist()
    faults = {
        row: f"the date is {'before the year 1' if early[row] else f'after the year {last_year}'}"
        for row, wrong in enumerate(is_wrong.to_pylist())
        if wrong
    }
    return pc.if_else(is_wrong, pa.scalar(None, column.type), column), faults
