"""A scene in a terminal: at each step the clients' state, the requests on the wire, and the log, side by side.

The output is plain text of a fixed width; colours are optional and do not change the width. Chinese characters take two
columns.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

from semel.lab.log_view import Kind, LogEntry, LogView
from semel.lab.scene import Fact, Scene, Verdict
from semel.lab.stage import ClientView, Frame
from semel.lab.words import Text, translated
from semel.testing.tracing.summary_text import text_of
from semel.testing.tracing.wire_trace import WireEvent, WireEventKind

WIDTH: Final = 100
OPEN: Final = "○"
ABORTED: Final = "×"  # noqa: RUF001
_WIDTHS: Final = (23, 48, 23)
_BAR: Final = " │ "

_PLAIN, _BOLD, _DIM, _RED, _GREEN, _YELLOW = (f"\033[{code}m" for code in (0, 1, 2, 31, 32, 33))

ARROWS: Final = {
    WireEventKind.REQUEST: "→",
    WireEventKind.ANSWER: "←",
    WireEventKind.REQUEST_LOST: "→✗",
    WireEventKind.ANSWER_LOST: "✗←",
    WireEventKind.HELD: "→‖",
    WireEventKind.RELEASED: "‖→",
}
_FATES: Final = {
    WireEventKind.REQUEST_LOST: "the request is lost",
    WireEventKind.ANSWER_LOST: "the answer is lost",
    WireEventKind.HELD: "is held",
    WireEventKind.RELEASED: "goes on",
}
_SHORTER: Final = (("producer_id=", "pid="), ("transactional_id=", "id="), ("sequence=", "seq="), ("records=1 ", ""))


# A member id is the client id followed by this.
_UUID: Final = re.compile(r"-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Screen:
    """Formats a scene as lines of text, which the caller prints."""

    def __init__(self, *, language: str = "en", colour: bool = False) -> None:
        self._language = language
        self._colour = colour

    def opening(self, scene: Scene, *, protected: bool) -> list[str]:
        title = f"{self._say('Scene {number}', number=scene.number)} · {translated(scene.title, self._language)}"
        how = "Protection: {protection}" if protected else "Switched off: {protection}"
        switch = self._say(how, protection=translated(scene.protection, self._language))
        lesson = wrapped(translated(scene.lesson, self._language), WIDTH - 2)
        return [
            self._in(_BOLD, f"══ {title} ".ljust(WIDTH - _extra(title), "═")),
            *(f"  {line}" for line in lesson),
            self._in(_DIM if protected else _YELLOW, f"  {switch}"),
            "",
        ]

    def step(self, frame: Frame) -> list[str]:
        """One step: the sentence that says what happens, and the three columns."""
        head = wrapped(f"{frame.number}. {frame.text.of(self._language)}", WIDTH)
        titles = [self._say(title) for title in ("clients", "on the wire", "log   ○ open  × aborted")]  # noqa: RUF001
        columns = (list(_client_lines(frame.clients)), list(_wire_lines(frame.wire)), list(_log_lines(frame.logs)))
        return [
            *(self._in(_BOLD, line) for line in head),
            self._row([(_DIM, title) for title in titles]),
            *(self._row(cells) for cells in itertools.zip_longest(*columns, fillvalue=("", ""))),
            "",
        ]

    def verdict(self, verdict: Verdict, *, protected: bool) -> list[str]:
        held = verdict.holds
        headline = self._say("Verdict: it holds" if held else "Verdict: it does not hold")
        lines = [self._in(_BOLD + (_GREEN if held else _RED), headline), *map(self._fact, verdict.facts)]
        if not protected:
            lines.append(
                self._say(
                    "Without the protection it held all the same: the scene has shown nothing."
                    if held
                    else "Without the protection it does not hold: that is what it is for."
                )
            )
        return [*lines, ""]

    def _fact(self, fact: Fact) -> str:
        line = f"  {'✓' if fact.holds else '✗'} {translated(fact.name, self._language)}: {fact.found}"
        if not fact.holds:
            line += f" ({self._say('should be {wanted}', wanted=fact.wanted)})"
        return line if fact.holds else self._in(_RED, line)

    def _row(self, cells: Iterable[tuple[str, str]]) -> str:
        return _BAR.join(
            self._in(colour, _padded(text, width)) for (colour, text), width in zip(cells, _WIDTHS, strict=True)
        ).rstrip()

    def _say(self, template: str, **values: object) -> str:
        return Text(template, values).of(self._language)

    def _in(self, colour: str, text: str) -> str:
        return f"{colour}{text}{_PLAIN}" if self._colour and colour else text


def wire_text(event: WireEvent) -> str:
    """An event in a few words, without its client: ``Produce orders:0(pid=0 epoch=0 seq=1)``."""
    if event.kind in _FATES:
        return f"{event.api}: {_FATES[event.kind]}"
    text = " ".join(word for word in (event.api, text_of(event.fields), *event.errors) if word)
    for long, short in _SHORTER:
        text = text.replace(long, short)
    return _UUID.sub("", text)


def client_name(event: WireEvent) -> str:
    """The name of the client that has sent the request; ``broker 2`` if that is a broker."""
    name = event.client_id or "client"
    broker = re.fullmatch(r"semel-broker/(\d+)/.*", name)
    return name if broker is None else f"broker {broker[1]}"


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Lines of at most this many columns, broken at spaces, after wide characters, and in words that are too long."""
    lines, line = [], ""
    for piece in _pieces(text):
        if line and _width(line) + _width(piece.rstrip()) > width:
            lines.append(line.rstrip())
            line = indent
        while _width(line) + _width(piece.rstrip()) > width:
            room = width - _width(line)
            lines.append(line + piece[:room])
            line, piece = indent, piece[room:]
        line += piece
    return [*lines, line.rstrip()]


def _pieces(text: str) -> Iterator[str]:
    """The pieces between which a line may break: a word with its space, or a wide character with its punctuation."""
    for found in re.finditer(r"[^\s\u2e80-\uffef]+\s*|[\u2e80-\uffef][，。：；、）]*\s*|\s+", text):  # noqa: RUF001
        yield found[0]


def _width(text: str) -> int:
    return len(text) + _extra(text)


def _extra(text: str) -> int:
    """How many more columns than characters the text takes: one for each wide character."""
    return sum(unicodedata.east_asian_width(character) in "WF" for character in text)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def _client_lines(clients: Iterable[ClientView]) -> Iterator[tuple[str, str]]:
    for client in clients:
        yield _BOLD, client.name
        for line in client.lines:
            for part in wrapped(line, _WIDTHS[0] - 1, " "):
                yield "", f" {part}"


def _wire_lines(wire: Iterable[WireEvent]) -> Iterator[tuple[str, str]]:
    for event in wire:
        colour = _RED if event.errors or event.kind in (WireEventKind.REQUEST_LOST, WireEventKind.ANSWER_LOST) else ""
        server = "" if event.server is None else f"{event.server}: "
        text = f"{client_name(event)} {ARROWS[event.kind]} {server}{wire_text(event)}"
        for line in wrapped(text, _WIDTHS[1], "  "):
            yield colour, line


def _log_lines(logs: Iterable[LogView]) -> Iterator[tuple[str, str]]:
    for log in logs:
        yield _BOLD, log.name
        for entry in log.entries:
            if entry.offset == log.last_stable_offset:
                yield _YELLOW, " ── last stable offset"
            yield _entry_line(entry)
        if log.last_stable_offset >= log.high_watermark:
            yield _DIM, f" end {log.high_watermark}"


def _entry_line(entry: LogEntry) -> tuple[str, str]:
    colour = {
        Kind.OPEN: _YELLOW,
        Kind.ABORTED: _DIM,
        Kind.COMMIT: _GREEN,
        Kind.ABORT: _RED,
        Kind.DATA: "",
    }[entry.kind]
    numbers = "" if entry.producer_id is None else f"{entry.producer_id}/{entry.epoch}"
    if entry.sequence is not None and entry.sequence >= 0:
        numbers += f"#{entry.sequence}"
    mark = {Kind.OPEN: OPEN, Kind.ABORTED: ABORTED}.get(entry.kind, " ")
    return colour, f"{entry.offset:>3} {mark} {entry.value[:9]:<9} {numbers}"[: _WIDTHS[2]]
