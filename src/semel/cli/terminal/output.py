"""The output of commands: tables for people, JSON for scripts.

Colour is used on terminals only, and not if ``NO_COLOR`` is set. Numbers are right-aligned; times are shown in UTC.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TextIO
from uuid import UUID

if TYPE_CHECKING:
    from semel.client.admin.results import Results

_BOLD: Final = "\033[1m"
_PLAIN: Final = "\033[0m"


def print_rows(
    rows: Sequence[Mapping[str, Any]], columns: Sequence[str], *, as_json: bool, empty: str = "none"
) -> None:
    """Print a table with these columns, or the rows with all their fields as a JSON array. ``empty`` is printed for a
    table without rows."""
    if as_json:
        print_json(rows)
    elif not rows:
        print(empty)
    else:
        print(
            table([[row.get(column) for column in columns] for row in rows], columns, colour=is_colourful(sys.stdout))
        )


def print_facts(facts: Mapping[str, Any], *, as_json: bool) -> None:
    """Print the facts about one thing, each on a line, or as one JSON object."""
    if as_json:
        print_json(facts)
        return
    width = max(map(len, facts), default=0)
    for name, value in facts.items():
        print(f"{name.replace('_', ' '):<{width}}  {shown(value)}")


def say(text: str) -> None:
    """Print a message that is not part of the command's output, on standard error."""
    print(f"semel: {text}", file=sys.stderr, flush=True)


def print_deleted(results: Results[str, None], *, as_json: bool) -> None:
    """Print what was deleted. Then raise the first error, if something was not deleted."""
    print_facts({"deleted": sorted(results.succeeded)}, as_json=as_json)
    results.all()


def print_json(value: object) -> None:
    print(json.dumps(value, default=_plain, ensure_ascii=False))


def table(rows: Sequence[Sequence[Any]], columns: Sequence[str], *, colour: bool = False) -> str:
    texts = [[shown(cell) for cell in row] for row in rows]
    titles = [column.replace("_", " ").upper() for column in columns]
    widths = [max(len(title), *(len(row[at]) for row in texts)) for at, title in enumerate(titles)]
    numeric = [
        all(isinstance(row[at], int | float) or row[at] is None for row in rows)
        and any(row[at] is not None for row in rows)
        for at in range(len(columns))
    ]

    def line(cells: Iterable[str]) -> str:
        aligned = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(cells, widths, numeric, strict=True)
        )
        return "  ".join(aligned).rstrip()

    head = line(titles)
    return "\n".join([f"{_BOLD}{head}{_PLAIN}" if colour else head, *map(line, texts)])


def shown(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case list() | tuple():
            return ", ".join(map(shown, value)) or "-"
        case _:
            return str(value)


def is_colourful(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR")


def _plain(value: object) -> object:
    match value:
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case UUID():
            return str(value)
        case set() | frozenset():
            return sorted(value)
        case _:
            return str(value)
