"""Draws the content of a terminal as an SVG image that loads no other file: no font, no script, no style sheet.

It understands only the control sequences that the commands here use: bold, dim and plain text, and a progress line that
is overwritten. Any other sequence raises an error, so that no wrong picture is drawn.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import escape
from typing import Final
from xml.etree import ElementTree

_LINE, _CHARACTER, _SIZE = 18, 8.4, 14
_LEFT, _TOP, _BOTTOM = 16, 52, 14
_PAPER, _BAR, _INK, _FAINT, _PROMPT = "#1e2227", "#2b3038", "#dfe3e8", "#8a929c", "#7fc8a0"
_FONT: Final = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"

_STYLES: Final = {"": "", "0": "", "1": ' font-weight="bold"', "2": f' fill="{_FAINT}"'}
_SEQUENCE: Final = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])")
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f]")


@dataclass(frozen=True, slots=True)
class Span:
    text: str
    style: str = ""


@dataclass(slots=True)
class Screen:
    """The lines of a terminal, each a list of spans."""

    lines: list[list[Span]] = field(default_factory=list)

    def type(self, command: str) -> None:
        """Add a prompt and the command that the user types."""
        if self.lines:
            self.lines.append([])
        self.lines.append([Span("$ ", f' fill="{_PROMPT}"'), Span(command, ' font-weight="bold"')])

    def print(self, text: str) -> None:
        """Add the output of a command."""
        for line in text.rstrip("\n").split("\n"):
            self.lines.append(_spans(line.rsplit("\r", 1)[-1].expandtabs(8)))


def svg(screen: Screen, *, title: str) -> str:
    columns = max(sum(len(span.text) for span in line) for line in screen.lines)
    width, height = round(2 * _LEFT + columns * _CHARACTER), _TOP + _LINE * len(screen.lines) + _BOTTOM
    size = f'width="{width}" height="{height}"'
    font = f'font-family="{_FONT}" font-size="{_SIZE}" fill="{_INK}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {width} {height}" {font} role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect {size} rx="8" fill="{_PAPER}"/>',
        f'<path d="M0 30V8a8 8 0 0 1 8-8H{width - 8}a8 8 0 0 1 8 8V30z" fill="{_BAR}"/>',
        *(f'<circle cx="{18 + 20 * place}" cy="15" r="5.5" fill="{_FAINT}"/>' for place in range(3)),
    ]
    for number, line in enumerate(screen.lines):
        # Every line is drawn with a fixed length, so that columns are aligned with any font.
        length = f'{sum(len(span.text) for span in line) * _CHARACTER:.1f}" lengthAdjust="spacingAndGlyphs'
        spans = "".join(f"<tspan{span.style}>{escape(span.text, quote=False)}</tspan>" for span in line)
        attributes = f'x="{_LEFT}" y="{_TOP + _LINE * number}" xml:space="preserve"'
        parts.append(f'<text {attributes} textLength="{length}">{spans}</text>' if line else f"<text {attributes}/>")
    return "\n".join([*parts, "</svg>", ""])


def text_of(picture: str) -> str:
    """Return the text of a picture that ``svg`` made, line by line."""
    lines = ElementTree.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")
    return "\n".join("".join(line.itertext()) for line in lines)


def _spans(line: str) -> list[Span]:
    spans: list[Span] = []
    style, position = "", 0
    for sequence in [*_SEQUENCE.finditer(line), None]:
        text = line[position : sequence.start() if sequence else None]
        if _CONTROL.search(text):
            raise ValueError(f"the terminal is told something that is not drawn: {text!r}")
        if text:
            spans.append(Span(text, style))
        if sequence is None:
            return spans
        if sequence[2] == "m":
            style = _STYLES[sequence[1]]
        elif sequence[2] != "K":  # K erases the rest of a line that is overwritten.
            raise ValueError(f"the terminal is told something that is not drawn: {sequence[0]!r}")
        position = sequence.end()
    return spans
