"""The table: what each contestant reached, how many times better Semel is, and what it aimed for."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

from benchmarks.contestants import KAFKA, SEMEL_COMMIT, SEMEL_OS
from benchmarks.measuring import Row

DISTURBED = "~"

Figure = Callable[[str, str], float | None]


def shown(figure: float | None) -> str:
    """Three digits that matter: 12,300 rather than 12345.67, and 0.21 rather than 0.2."""
    if figure is None:
        return "-"
    if figure >= 100:
        digits = max(0, len(str(int(figure))) - 3)
        return f"{round(figure, -digits):,.0f}"
    return f"{figure:.3g}"


def advantage(row: Row, figure: Figure, semel: str = SEMEL_OS) -> float | None:
    """How many times better than Apache Kafka; below 1 is worse. None where one of the two was not measured."""
    ours, theirs = figure(row.key, semel), figure(row.key, KAFKA)
    if not ours or not theirs:
        return None
    return ours / theirs if row.higher_is_better else theirs / ours


def markdown(
    rows: Sequence[Row], contestants: Sequence[str], figure: Figure, disturbed: Container[str] = frozenset()
) -> str:
    """A table for people; a row whose key is in ``disturbed`` has a mark, since others used the machine meanwhile."""
    heads = ["", *contestants, "", "Semel : Kafka", "aim", "flush=commit : Kafka"]
    lines = [
        [
            _title(row, disturbed),
            *(shown(figure(row.key, name)) for name in contestants),
            row.unit,
            *_ratio(row, figure),
        ]
        for row in rows
        if any(figure(row.key, name) is not None for name in contestants)
    ]
    widths = [max(len(line[column]) for line in [heads, *lines]) for column in range(len(heads))]
    rule = [
        "-" * width if column in (0, len(contestants) + 1) else "-" * (width - 1) + ":"
        for column, width in enumerate(widths)
    ]
    return "".join(_line(cells, widths) for cells in (heads, rule, *lines))


def _title(row: Row, disturbed: Container[str]) -> str:
    title = row.title if row.higher_is_better else f"{row.title} (less is better)"
    return f"{title} {DISTURBED}" if row.key in disturbed else title


def _ratio(row: Row, figure: Figure) -> tuple[str, str, str]:
    times, ours = advantage(row, figure), figure(row.key, SEMEL_OS)
    ratio = "" if times is None else f"{times:.2f} x"
    if row.limit is not None:
        missed, aim = ours is not None and ours > row.limit, f"at most {row.limit:g} {row.unit}"
    else:
        missed = row.aim is not None and times is not None and times < row.aim
        aim = "" if row.aim is None else f"{row.aim:g} x"
    return f"{ratio} (missed)" if missed else ratio, aim, _durable_ratio(row, figure)


def _durable_ratio(row: Row, figure: Figure) -> str:
    times = advantage(row, figure, SEMEL_COMMIT)
    if times is None:
        return ""
    missed = row.aim_durable is not None and times < row.aim_durable
    return f"{times:.2f} x (missed)" if missed else f"{times:.2f} x"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    last = len(cells) - 1
    padded = [
        cell.ljust(width) if column == 0 or column == last - 3 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "| " + " | ".join(padded) + " |\n"
