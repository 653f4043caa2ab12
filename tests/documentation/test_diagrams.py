"""Diagrams are drawn from their texts, or from the code, and each of them is shown on a page."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from semel.coordinator.transaction.states import LEGAL_SOURCES, TxnState
from tests.documentation.blocks import ROOT, documents
from tools import state_picture
from tools.sequence_diagram import Action, Diagram, Heading, Message, parse, pictures, svg

RETRY = """
title: A retry
participants: Producer, Broker

== the answer is lost
Producer -> Broker: Produce <1>
Broker: appends
Broker --x Producer: offset 0
"""


def test_every_picture_is_the_one_of_its_text() -> None:
    stale = [path.name for path, picture in pictures().items() if not path.exists() or path.read_text() != picture]
    assert stale == [], "run python -m tools.sequence_diagram"


def test_every_picture_is_shown_on_a_page() -> None:
    pages = "".join((ROOT / document).read_text() for document in documents())
    assert [path.name for path in pictures() if f"pictures/{path.name})" not in pages] == []


def test_a_text_is_read_as_headings_messages_and_steps() -> None:
    assert parse(RETRY) == Diagram(
        "A retry",
        ("Producer", "Broker"),
        (
            Heading("the answer is lost"),
            Message(0, 1, "Produce <1>"),
            Action(1, "appends"),
            Message(1, 0, "offset 0", is_answer=True, is_lost=True),
        ),
    )


def test_a_picture_has_every_word_of_its_text() -> None:
    words = [text.text for text in ElementTree.fromstring(svg(parse(RETRY))).iter("{http://www.w3.org/2000/svg}text")]
    assert words == ["A retry", "Producer", "Broker", "the answer is lost", "Produce <1>", "appends", "offset 0"]


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("Producer -> Controller: hello", "line 10: 'Controller' is not one of the participants: Producer, Broker"),
        ("Broker -> Broker: hello", "line 10: Broker sends to itself"),
        ("hello", "line 10: 'hello' is neither a message"),
    ],
)
def test_a_line_that_cannot_be_drawn_is_named(line: str, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        parse(f"{RETRY}\n{line}")


def test_a_diagram_without_steps_is_refused() -> None:
    with pytest.raises(ValueError, match="a title, participants and steps"):
        parse("title: A retry\nparticipants: Producer, Broker")


def test_the_picture_of_the_states_has_every_state_and_every_move_and_is_shown_on_a_page() -> None:
    drawn = state_picture.PICTURE.read_text()
    assert drawn == state_picture.svg(), "run python -m tools.state_picture"
    words = [text.text for text in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    assert sorted(word for word in words if word) == sorted(state.kafka_name for state in TxnState)
    entry = 1
    assert drawn.count("<polygon") == sum(map(len, LEGAL_SOURCES.values())) + entry
    page = (ROOT / "docs" / "design" / "transaction-states.md").read_text()
    assert f"(../pictures/{state_picture.PICTURE.name})" in page


def test_no_arrow_between_two_states_crosses_a_third() -> None:
    curves = re.findall(r'd="M(\S+) (\S+)Q(\S+) (\S+) (\S+) ([\d.]+)"', state_picture.svg())
    for x0, y0, x1, y1, x2, y2 in (tuple(map(float, curve)) for curve in curves):
        ends = {state_at(x0, y0), state_at(x2, y2)}
        for step in range(101):
            t = step / 100
            x = (1 - t) ** 2 * x0 + 2 * t * (1 - t) * x1 + t**2 * x2
            y = (1 - t) ** 2 * y0 + 2 * t * (1 - t) * y1 + t**2 * y2
            assert state_at(x, y) in {None, *ends}, (ends, x, y)


def state_at(x: float, y: float) -> TxnState | None:
    for state, place in state_picture.PLACES.items():
        if abs(x - place.x) <= 76 and abs(y - place.y) <= 18:
            return state
    return None
