from __future__ import annotations

import re

from semel.console import charts, texts
from semel.console.live import _event
from semel.console.pages import link
from semel.console.safety import Tokens, host_of, is_loopback


def test_numbers_and_times_are_short() -> None:
    assert [texts.number(value) for value in (None, 0, 3.25, 12345.6)] == ["\N{EN DASH}", "0", "3.2", "12\u202f346"]
    spans = [texts.span(value) for value in (-5, 250, 3_200, 59_999, 61_000, 900_000, 7_380_000, 90_000_000)]
    assert spans == ["0 ms", "250 ms", "3.2 s", "59 s", "1 min 1 s", "15 min", "2 h 3 min", "1 d 1 h"]
    assert [texts.size(value) for value in (999, 1_500, 25_000_000)] == ["999 B", "1.5 KB", "25 MB"]


def test_a_picture_escapes_the_names_in_it_and_shows_little_that_is_held_up() -> None:
    drawn = str(charts.offsets_bar(0, 1_000_000, 1_000_001, ticks=[("<b>", 10)]))
    assert "&lt;b&gt; is at 10" in drawn
    assert 'class="bar-held" x="976.0" y="5" width="24.0"' in drawn
    assert "bar-held" not in str(charts.offsets_bar(5, 9, 9))
    assert 'width="0.0"' in str(charts.offsets_bar(5, 5, 5))


def test_the_picture_of_a_partition_has_its_five_offsets() -> None:
    drawn = str(charts.offsets_bar(100, 160, 180, 200, [(110, 119), (130, 130)]))
    assert 'aria-label="offsets 100 to 180; last stable offset 160; 20 held up; log end 200; 11 aborted of' in drawn
    assert rectangles(drawn) == [
        ("none", 0.0, 1000.0),
        ("readable", 0.0, 600.0),
        ("held", 600.0, 200.0),
        ("behind", 800.0, 200.0),
        ("aborted", 100.0, 100.0),
        ("aborted", 300.0, 10.0),
    ]
    assert "<title>aborted: 110 to 119</title>" in drawn


def test_little_beside_much_is_seen_and_nothing_is_drawn_beyond_the_picture() -> None:
    drawn = rectangles(str(charts.offsets_bar(0, 10**6, 10**6 + 1, 10**6 + 2, [(10**6 - 1, 10**6 - 1)])))
    assert drawn[1:] == [
        ("readable", 0.0, 952.0),
        ("held", 952.0, 24.0),
        ("behind", 976.0, 24.0),
        ("aborted", 948.0, 4.0),
    ]
    assert [name for name, _, _ in rectangles(str(charts.offsets_bar(5, 9, 9, 9)))] == ["none", "readable"]


def rectangles(picture: str) -> list[tuple[str, float, float]]:
    found = re.findall(r'<rect class="bar-(\w+)" x="([\d.]+)" y="5" width="([\d.]+)"', picture)
    return [(name, float(x), float(width)) for name, x, width in found]


def test_a_line_break_in_a_record_cannot_end_an_event() -> None:
    assert _event("one\n\ndata: forged\r\nevent: x\rlast") == (
        b"data: one\ndata: \ndata: data: forged\ndata: event: x\ndata: last\n\n"
    )


def test_any_name_can_stand_in_an_address() -> None:
    assert link("group", id="a/../b?c=d&e#f") == "/group?id=a%2F..%2Fb%3Fc%3Dd%26e%23f"
    assert link("topics", q="", page=None) == "/topics"


def test_a_token_belongs_to_its_session_and_its_process() -> None:
    tokens, others = Tokens(), Tokens()
    session = tokens.new_session()
    assert tokens.is_token(session, tokens.token(session))
    assert not tokens.is_token(tokens.new_session(), tokens.token(session))
    assert not others.is_token(session, tokens.token(session))
    assert not tokens.is_token(session, "\u00e9")
    assert tokens.session({"semel_console": session}) == session
    assert tokens.session({"semel_console": "short"}) is None


def test_names_of_this_machine() -> None:
    assert [is_loopback(host_of(name)) for name in ("localhost:1", "127.0.0.1", "[::1]:80", "127.1.2.3:5")] == [
        True
    ] * 4
    assert [is_loopback(host_of(name)) for name in ("evil.example", "localhost.evil.example", "10.0.0.1:80", "")] == (
        [False] * 4
    )
