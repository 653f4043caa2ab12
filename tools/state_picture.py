"""Draws the states of a transaction, ``docs/pictures/transaction-states.svg``, from the table in ``states``.

The positions of the states are defined here; the arrows are the legal moves of the table. The picture loads no other
file: no font, no script, no style sheet.

    python -m tools.state_picture         draws it again
"""

from __future__ import annotations

from math import hypot
from pathlib import Path
from typing import Final, NamedTuple

from semel.coordinator.transaction.states import LEGAL_SOURCES, TxnState

PICTURE: Final = Path(__file__).resolve().parent.parent / "docs" / "pictures" / "transaction-states.svg"

_WIDTH, _HEIGHT = 940, 550
_BOX_WIDTH, _BOX_HEIGHT = 150, 34
_CHARACTER, _SIZE = 7.0, 13
_PAPER, _INK, _FAINT, _COMMIT, _ABORT = "#ffffff", "#1e2227", "#8a929c", "#1b6e3c", "#b3261e"
_FONT: Final = "ui-sans-serif, system-ui, Helvetica, Arial, 'DejaVu Sans', sans-serif"


class Point(NamedTuple):
    x: float
    y: float


PLACES: Final = {
    TxnState.DEAD: Point(110, 60),
    TxnState.EMPTY: Point(110, 260),
    TxnState.ONGOING: Point(345, 260),
    TxnState.PREPARE_COMMIT: Point(585, 130),
    TxnState.COMPLETE_COMMIT: Point(830, 130),
    TxnState.PREPARE_EPOCH_FENCE: Point(365, 415),
    TxnState.PREPARE_ABORT: Point(585, 400),
    TxnState.COMPLETE_ABORT: Point(830, 400),
}

# How far an arrow is bent to the left of the straight line.
_BENDS: Final = {
    (TxnState.COMPLETE_COMMIT, TxnState.DEAD): -90,
    (TxnState.COMPLETE_ABORT, TxnState.EMPTY): 385,
    (TxnState.COMPLETE_ABORT, TxnState.PREPARE_ABORT): 34,
    (TxnState.EMPTY, TxnState.PREPARE_ABORT): -20,
}

# The moves of nearly all transactions, which are drawn in colour.
_USUAL: Final = {
    (TxnState.EMPTY, TxnState.ONGOING): _INK,
    (TxnState.ONGOING, TxnState.PREPARE_COMMIT): _COMMIT,
    (TxnState.PREPARE_COMMIT, TxnState.COMPLETE_COMMIT): _COMMIT,
    (TxnState.ONGOING, TxnState.PREPARE_ABORT): _ABORT,
    (TxnState.PREPARE_ABORT, TxnState.COMPLETE_ABORT): _ABORT,
}


def main() -> None:
    PICTURE.write_text(svg())


def svg() -> str:
    moves = [(source, target) for target, sources in LEGAL_SOURCES.items() for source in sorted(sources)]
    unusual = [move for move in moves if move not in _USUAL]
    size = f'width="{_WIDTH}" height="{_HEIGHT}"'
    font = f'font-family="{_FONT}" font-size="{_SIZE}" fill="{_INK}"'
    entry = PLACES[TxnState.EMPTY]._replace(x=14)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {_WIDTH} {_HEIGHT}" {font} role="img">',
            "<title>The states of a transaction, and every move between them</title>",
            f'<rect {size} rx="8" fill="{_PAPER}"/>',
            *(_arrow(move, _FAINT, 1.1) for move in unusual),
            *(_arrow(move, color, 2.0) for move, color in _USUAL.items()),
            f'<circle cx="{entry.x}" cy="{entry.y}" r="6" fill="{_INK}"/>',
            _line(entry, entry, Point(PLACES[TxnState.EMPTY].x - _BOX_WIDTH / 2, entry.y), _INK, 1.4),
            *(_box(state, place) for state, place in PLACES.items()),
            "</svg>",
            "",
        ]
    )


def _arrow(move: tuple[TxnState, TxnState], color: str, width: float) -> str:
    source, target = PLACES[move[0]], PLACES[move[1]]
    dashes = ' stroke-dasharray="5 4"' if TxnState.PREPARE_EPOCH_FENCE in move else ""
    if source == target:
        x, y = source.x - 36, source.y + _BOX_HEIGHT / 2
        path = f'<path d="M{x + 26} {y}C{x + 40} {y + 40} {x - 40} {y + 40} {x - 26} {y + 4}"'
        return f'{path} fill="none" stroke="{color}" stroke-width="{width}"/>\n' + _head(
            Point(x - 34, y + 22), Point(x - 24, y), color
        )
    length = hypot(target.x - source.x, target.y - source.y)
    bend = _BENDS.get(move, 0) / length
    middle = Point(
        (source.x + target.x) / 2 + (target.y - source.y) * bend,
        (source.y + target.y) / 2 - (target.x - source.x) * bend,
    )
    return _line(_border(source, middle), middle, _border(target, middle), color, width, dashes)


def _line(start: Point, middle: Point, end: Point, color: str, width: float, dashes: str = "") -> str:
    path = f"M{start.x:.1f} {start.y:.1f}Q{middle.x:.1f} {middle.y:.1f} {end.x:.1f} {end.y:.1f}"
    curve = f'<path d="{path}" fill="none" stroke="{color}" stroke-width="{width}"{dashes}/>'
    return curve + "\n" + _head(middle if middle != end else start, end, color)


def _head(towards: Point, tip: Point, color: str) -> str:
    """Return the head of an arrow at ``tip`` that comes from the direction of ``towards``."""
    length = hypot(tip.x - towards.x, tip.y - towards.y)
    x, y = (tip.x - towards.x) / length, (tip.y - towards.y) / length
    left = Point(tip.x - 10 * x - 4.5 * y, tip.y - 10 * y + 4.5 * x)
    right = Point(tip.x - 10 * x + 4.5 * y, tip.y - 10 * y - 4.5 * x)
    points = " ".join(f"{point.x:.1f},{point.y:.1f}" for point in (tip, left, right))
    return f'<polygon points="{points}" fill="{color}"/>'


def _border(center: Point, outside: Point) -> Point:
    """Return the point at which the line from the center of a box to a point outside crosses its border."""
    x, y = outside.x - center.x, outside.y - center.y
    scale = min(_BOX_WIDTH / 2 / abs(x) if x else 1e9, _BOX_HEIGHT / 2 / abs(y) if y else 1e9)
    return Point(center.x + x * scale, center.y + y * scale)


def _box(state: TxnState, place: Point) -> str:
    color = _COMMIT if "Commit" in state.kafka_name else _ABORT if "Abort" in state.kafka_name else _INK
    dashes = ' stroke-dasharray="5 4"' if state is TxnState.PREPARE_EPOCH_FENCE else ""
    corner = f'x="{place.x - _BOX_WIDTH / 2}" y="{place.y - _BOX_HEIGHT / 2}"'
    size = f'width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}"'
    box = f'<rect {corner} {size} rx="6" fill="{_PAPER}" stroke="{color}" stroke-width="1.6"{dashes}/>'
    length = f'textLength="{len(state.kafka_name) * _CHARACTER:.1f}" lengthAdjust="spacingAndGlyphs"'
    text = f'<text x="{place.x}" y="{place.y + 4.5}" text-anchor="middle" {length}>{state.kafka_name}</text>'
    return box + "\n" + text


if __name__ == "__main__":
    main()
