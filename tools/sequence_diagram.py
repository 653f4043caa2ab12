"""Sequence diagrams: parses a text of messages between participants, and draws it as an SVG picture.

    title: A retry
    participants: Producer, Broker

    == the first attempt               a heading across the picture
    Producer -> Broker: Produce        a request
    Broker: appends                    a step of one participant
    Broker --> Producer: offset 0      an answer
    Broker --x Producer: offset 0      an answer that is lost (also ->x, a request that is lost)

The picture loads no other file: no font, no script, no style sheet. Text is drawn with a fixed length, so that it fits
with any font.

    python -m tools.sequence_diagram      draws docs/pictures/NAME.svg of every docs/diagrams/NAME.txt
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

_DOCS: Final = Path(__file__).resolve().parent.parent / "docs"

_COLUMN, _MARGIN, _TOP, _BOX = 230, 16, 48, 30
_LINE, _CHARACTER, _SIZE = 15, 6.4, 12
_GAP: Final = 14
_PAPER, _INK, _FAINT, _ACTION, _LOST = "#ffffff", "#1e2227", "#8a929c", "#eef3f8", "#b3261e"
_FONT: Final = "ui-sans-serif, system-ui, Helvetica, Arial, 'DejaVu Sans', sans-serif"

_HALO: Final = f'stroke="{_PAPER}" stroke-width="4" paint-order="stroke"'
"""The outline around the text of a message, which may cross the lines of other participants."""

_MESSAGE: Final = re.compile(r"(.+?) (->|-->|->x|--x) (.+?): (.+)")
_ACTION_LINE: Final = re.compile(r"([^:]+): (.+)")


@dataclass(frozen=True, slots=True)
class Message:
    source: int
    target: int
    text: str
    is_answer: bool = False
    is_lost: bool = False


@dataclass(frozen=True, slots=True)
class Action:
    participant: int
    text: str


@dataclass(frozen=True, slots=True)
class Heading:
    text: str


@dataclass(frozen=True, slots=True)
class Diagram:
    title: str
    participants: tuple[str, ...]
    steps: tuple[Message | Action | Heading, ...]


def pictures() -> dict[Path, str]:
    """Return every picture of the documents as SVG, by its path."""
    texts = sorted((_DOCS / "diagrams").glob("*.txt"))
    return {_DOCS / "pictures" / f"{text.stem}.svg": svg(parse(text.read_text())) for text in texts}


def main() -> None:
    for path, picture in pictures().items():
        path.write_text(picture)


def parse(text: str) -> Diagram:
    """Parse a diagram. Raises ValueError, with the line and the rule, if the text is not a diagram."""
    title, names, steps = "", [], []
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if line.startswith("title: "):
            title = line.removeprefix("title: ")
        elif line.startswith("participants: "):
            names = line.removeprefix("participants: ").split(", ")
        elif line:
            try:
                steps.append(_step(line, names))
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None
    if not (title and names and steps):
        raise ValueError("a diagram has a title, participants and steps")
    return Diagram(title, tuple(names), tuple(steps))


def _step(line: str, names: list[str]) -> Message | Action | Heading:
    if line.startswith("== "):
        return Heading(line.removeprefix("== "))
    if message := _MESSAGE.fullmatch(line):
        source, arrow, target, text = message.groups()
        ends = _place(source, names), _place(target, names)
        if ends[0] == ends[1]:
            raise ValueError(f"{source} sends to itself; what it does alone is written as `{source}: ...`")
        return Message(*ends, text, is_answer=arrow.startswith("--"), is_lost=arrow.endswith("x"))
    if action := _ACTION_LINE.fullmatch(line):
        return Action(_place(action[1], names), action[2])
    raise ValueError(f"{line!r} is neither a message (`A -> B: text`), a step (`A: text`) nor a heading (`== text`)")


def _place(name: str, names: list[str]) -> int:
    if name not in names:
        raise ValueError(f"{name!r} is not one of the participants: {', '.join(names)}")
    return names.index(name)


def svg(diagram: Diagram) -> str:
    width = _COLUMN * len(diagram.participants) + 2 * _MARGIN
    drawn: list[str] = []
    y = _TOP + _BOX + _GAP
    for step in diagram.steps:
        match step:
            case Heading():
                shapes, height = _heading(step, y, width)
            case Message():
                shapes, height = _message(step, y)
            case Action():
                shapes, height = _action(step, y)
        drawn += shapes
        y += height + _GAP
    height = y + _MARGIN
    size = f'width="{width}" height="{height}"'
    font = f'font-family="{_FONT}" font-size="{_SIZE}" fill="{_INK}"'
    ends = [_center(place) for place in range(len(diagram.participants))]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width} {height}" {font} role="img">',
            f"<title>{escape(diagram.title, quote=False)}</title>",
            f'<rect {size} rx="8" fill="{_PAPER}"/>',
            _text(diagram.title, width / 2, 26, 'font-weight="bold"'),
            *(f'<path d="M{x} {_TOP}V{height - _MARGIN}" stroke="{_FAINT}" stroke-dasharray="2 4"/>' for x in ends),
            *(_participant(name, place) for place, name in enumerate(diagram.participants)),
            *drawn,
            "</svg>",
            "",
        ]
    )


def _center(place: int) -> int:
    return _MARGIN + place * _COLUMN + _COLUMN // 2


def _participant(name: str, place: int) -> str:
    x = _center(place) - _COLUMN // 2 + 20
    box = f'<rect x="{x}" y="{_TOP}" width="{_COLUMN - 40}" height="{_BOX}" rx="4" fill="{_INK}"/>'
    return box + "\n" + _text(name, _center(place), _TOP + 19, f'font-weight="bold" fill="{_PAPER}"')


def _heading(heading: Heading, y: int, width: int) -> tuple[list[str], int]:
    lines = _wrapped(heading.text, width - 2 * _MARGIN - 24)
    label, height = round(max(map(len, lines)) * _CHARACTER) + 24, 24 + _LINE * (len(lines) - 1)
    line = f'<path d="M{_MARGIN} {y + height // 2}H{width - _MARGIN}" stroke="{_FAINT}"/>'
    place = f'x="{(width - label) / 2}" y="{y}" width="{label}" height="{height}"'
    box = f'<rect {place} rx="12" fill="{_PAPER}" stroke="{_FAINT}"/>'
    words = [_text(text, width / 2, y + 16 + _LINE * row, 'font-style="italic"') for row, text in enumerate(lines)]
    return [line, box, *words], height


def _message(message: Message, y: int) -> tuple[list[str], int]:
    start, end = _center(message.source), _center(message.target)
    right = 1 if end > start else -1
    lines = _wrapped(message.text, min(abs(end - start) - 24, _COLUMN + 150))
    arrow_y = y + _LINE * len(lines) + 2
    if message.is_lost:
        end -= right * round(abs(end - start) * 0.35)
    color = _LOST if message.is_lost else _INK
    dashes = ' stroke-dasharray="6 4"' if message.is_answer else ""
    middle = (_center(message.source) + _center(message.target)) / 2
    shapes = [_text(line, middle, y + _LINE * place + 10, _HALO) for place, line in enumerate(lines)]
    shapes.append(f'<path d="M{start} {arrow_y}H{end}" stroke="{color}" stroke-width="1.4"{dashes}/>')
    if message.is_lost:
        cross = f"M{end - 5} {arrow_y - 5}l10 10M{end - 5} {arrow_y + 5}l10 -10"
        shapes.append(f'<path d="{cross}" stroke="{color}" stroke-width="2"/>')
    else:
        shapes.append(f'<path d="M{end} {arrow_y}l{-8 * right} -4v8z" fill="{color}"/>')
    return shapes, arrow_y - y + 4


def _action(action: Action, y: int) -> tuple[list[str], int]:
    lines = _wrapped(action.text, _COLUMN - 36)
    width = round(max(map(len, lines)) * _CHARACTER) + 16
    x, height = _center(action.participant), _LINE * len(lines) + 8
    place = f'x="{x - width / 2}" y="{y}" width="{width}" height="{height}"'
    box = f'<rect {place} rx="3" fill="{_ACTION}" stroke="{_FAINT}"/>'
    return [box, *(_text(line, x, y + _LINE * (row + 1)) for row, line in enumerate(lines))], height


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, int(width / _CHARACTER), break_long_words=False)


def _text(text: str, x: float, y: float, style: str = "") -> str:
    length = f'textLength="{len(text) * _CHARACTER:.1f}" lengthAdjust="spacingAndGlyphs"'
    return f'<text x="{x}" y="{y}" text-anchor="middle" {length} {style}>{escape(text, quote=False)}</text>'


if __name__ == "__main__":
    main()
