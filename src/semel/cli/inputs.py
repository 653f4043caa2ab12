"""Input formats of ``semel produce``: lines, CSV, JSON lines, Parquet.

Every format yields key, value and headers as bytes. An error names the file and the line; records before that line have
been yielded.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, NamedTuple

from semel.cli.exits import UsageError
from semel.errors import SemelError

FORMATS: Final = ("lines", "csv", "json", "parquet")


class InputError(SemelError):
    """The content of an input file is not valid for its format."""


class InputRecord(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


def format_of(path: str) -> str:
    """Return the format for the ending of a file's name; ``lines`` for an unknown ending."""
    endings = {".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet"}
    return next((known for ending, known in endings.items() if path.endswith(ending)), "lines")


def read_records(
    file: BinaryIO, format_name: str, *, key_separator: str | None, key_field: str | None, null_value: str | None = None
) -> Iterator[InputRecord]:
    """Return the records of a file.

    ``key_separator`` divides a line into key and value; ``key_field`` is the column or member that is the key. A line
    whose value is ``null_value`` is a tombstone.
    """
    match format_name:
        case "lines":
            return _lines(
                file,
                None if key_separator is None else key_separator.encode(),
                None if null_value is None else null_value.encode(),
            )
        case "csv":
            return _csv(file, key_field)
        case "json":
            return _json(file, key_field)
        case "parquet":
            return _parquet(file, key_field)
    raise UsageError(f"--format {format_name}: it is one of {', '.join(FORMATS)}")


def _lines(file: BinaryIO, separator: bytes | None, null_value: bytes | None) -> Iterator[InputRecord]:
    for line in file:
        value = line.removesuffix(b"\n").removesuffix(b"\r")
        key = None
        if separator is not None and separator in value:
            key, _, value = value.partition(separator)
        yield InputRecord(key, None if value == null_value else value, [])


def _csv(file: BinaryIO, key_field: str | None) -> Iterator[InputRecord]:
    """Yield each row as a JSON object, with the column names of the first line."""
    rows = csv.DictReader(line.decode("utf-8-sig" if not number else "utf-8") for number, line in enumerate(file))
    if key_field is not None and key_field not in (rows.fieldnames or ()):
        raise InputError(f"there is no column {key_field!r}; there are {', '.join(rows.fieldnames or ())}")
    for row in rows:
        if None in row or None in row.values():
            raise InputError(f"line {rows.line_num} has another number of columns than the first")
        yield InputRecord(_key_text(row.get(key_field) if key_field else None), _json_bytes(row), [])


def _json(file: BinaryIO, key_field: str | None) -> Iterator[InputRecord]:
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise InputError(f"line {number} is not JSON: {error}") from None
        yield InputRecord(_member(value, key_field, f"line {number}"), line.strip(), [])


def _parquet(file: BinaryIO, key_field: str | None) -> Iterator[InputRecord]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise UsageError("reading Parquet takes pyarrow: pip install 'semel[arrow]'") from None
    number = 0
    for batch in parquet.ParquetFile(file).iter_batches():
        for row in batch.to_pylist():
            number += 1
            yield InputRecord(_member(row, key_field, f"row {number}"), _json_bytes(row), [])


def _member(value: Any, key_field: str | None, where: str) -> bytes | None:
    if key_field is None:
        return None
    if not isinstance(value, dict) or key_field not in value:
        raise InputError(f"{where} has no {key_field!r} to take the key from")
    return _key_text(value[key_field])


def _key_text(value: object) -> bytes | None:
    match value:
        case None:
            return None
        case bytes():
            return value
        case str():
            return value.encode()
        case _:
            return _json_bytes(value)


def _json_bytes(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str).encode()
