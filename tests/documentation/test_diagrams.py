"""Sequence diagrams are drawn from their texts, and each of them is shown on a page."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from tests.documentation.blocks import ROOT, documents
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
