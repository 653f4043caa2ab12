"""The picture in the README is what a terminal shows today."""

from __future__ import annotations

import pytest

from tools.first_minutes import COMMANDS, PICTURE, SERVE, session, without_times
from tools.terminal_picture import Screen, svg, text_of


def test_the_session_of_the_picture_prints_what_the_picture_shows() -> None:
    drawn, now = text_of(PICTURE.read_text()), text_of(svg(session(), title="now"))
    assert without_times(drawn) == without_times(now), "run make docs"
    assert [line[2:] for line in drawn.splitlines() if line.startswith("$ ")] == [SERVE, *COMMANDS]


def test_bold_and_dim_are_drawn_and_words_are_escaped() -> None:
    screen = Screen()
    screen.type("a < b")
    screen.print("\x1b[1mTITLE\x1b[0m plain \x1b[2mdim\x1b[0m\n")
    picture = svg(screen, title="t")
    assert text_of(picture) == "$ a < b\nTITLE plain dim"
    assert '<tspan font-weight="bold">TITLE</tspan>' in picture


def test_a_progress_line_that_was_overwritten_is_not_drawn() -> None:
    screen = Screen()
    screen.print("10 batches read\r\x1b[Kdone")
    assert text_of(svg(screen, title="t")) == "done"


@pytest.mark.parametrize("text", ["\x1b[2J", "\x07"])
def test_what_cannot_be_drawn_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="not drawn"):
        Screen().print(text)
