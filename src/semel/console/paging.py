"""Lists are filtered and divided into pages on the server, so that a page is as fast with 10,000 topics as with ten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from semel.console.pages import Visit, link

T = TypeVar("T")

ROWS_MAX: Final = 50


@dataclass(frozen=True, slots=True)
class Slice(Generic[T]):
    """The rows of one page of a list, and the addresses of the previous and the next page."""

    rows: Sequence[T]
    total: int
    first: int
    previous: str | None
    next: str | None

    @property
    def last(self) -> int:
        return self.first + len(self.rows) - 1


def sliced(visit: Visit, path: str, rows: Sequence[T], *, parameter: str = "page") -> Slice[T]:
    """Return the rows of the page that the query names.

    The query's ``page``, or another parameter for a second list, is a number from 1. A number beyond the end shows the
    last page.
    """
    size = ROWS_MAX
    pages = max(-(-len(rows) // size), 1)
    page = min(max(visit.number(parameter) or 1, 1), pages)
    others = {name: value for name, value in visit.query.items() if name != parameter}

    def at(number: int) -> str | None:
        return link(path, **others, **{parameter: number}) if 1 <= number <= pages else None

    begin = (page - 1) * size
    return Slice(rows[begin : begin + size], len(rows), begin + 1, at(page - 1), at(page + 1))


def matches(visit: Visit, *texts: str | None) -> bool:
    """Whether one of the texts contains the text that the visitor searches for, ignoring case."""
    wanted = visit.query.get("q", "").strip().lower()
    return not wanted or any(wanted in text.lower() for text in texts if text is not None)
