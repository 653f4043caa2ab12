from __future__ import annotations

from semel.testing.virtual.trace import Event, Trace


def trace(*events: tuple[float, str]) -> Trace:
    now = [0.0]
    made = Trace(lambda: now[0])
    for time_s, text in events:
        now[0] = time_s
        made.record(text)
    return made


def test_equal_runs_have_equal_digests() -> None:
    assert trace((0.5, "a"), (1.0, "b")).digest() == trace((0.5, "a"), (1.0, "b")).digest()


def test_another_time_another_text_and_another_order_each_change_the_digest() -> None:
    runs = [
        trace((0.5, "a"), (1.0, "b")),
        trace((0.5, "a"), (1.0000001, "b")),
        trace((0.5, "a"), (1.0, "c")),
        trace((0.5, "b"), (1.0, "a")),
        trace((0.5, "a")),
    ]
    assert len({run.digest() for run in runs}) == len(runs)


def test_a_trace_reads_as_lines_of_time_and_text() -> None:
    made = trace((0.5, "a"), (61.25, "b"))
    assert made.events == (Event(0.5, "a"), Event(61.25, "b"))
    assert str(made) == "    0.500000  a\n   61.250000  b"
    assert made.tail(1) == "   61.250000  b"
    assert made.tail(0) == ""
