"""Small charts, drawn on the server as SVG: they need no script and no inline style."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from markupsafe import Markup, escape

_WIDTH: Final = 1_000.0
_PART_MIN: Final = 24.0
_SPAN_MIN: Final = 4.0
_SERIES_MIN: Final = 30
"""A sparkline with fewer values fills only the right part of the chart."""


def sparkline(values: Sequence[float], label: str) -> Markup:
    """Return a line of the values over time, scaled from 0 to the largest value."""
    height = 120.0
    if len(values) < 2:
        return Markup('<svg class="spark" viewBox="0 0 1000 120" aria-hidden="true"></svg>')
    top = max(*values, 1.0)
    step = _WIDTH / (max(len(values), _SERIES_MIN) - 1)
    first = _WIDTH - step * (len(values) - 1)
    points = [(first + at * step, height - 4 - (height - 12) * value / top) for at, value in enumerate(values)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    area = f"{points[0][0]:.1f},{height} {line} {_WIDTH},{height}"
    return Markup(
        '<svg class="spark" viewBox="0 0 1000 120" preserveAspectRatio="none" role="img" aria-label="{}">'
        '<polygon class="spark-area" points="{}"/><polyline class="spark-line" points="{}"/></svg>'
    ).format(label, area, line)


def offsets_bar(
    start: int,
    stable: int,
    end: int,
    log_end: int | None = None,
    aborted: Iterable[tuple[int, int]] = (),
    ticks: Iterable[tuple[str, int]] = (),
) -> Markup:
    """Return a bar of a partition from its first offset to its log end.

    Its parts are the offsets up to the last stable offset, those up to the high watermark (``end``), which an open
    transaction holds up, and those up to the log end, which are not committed yet. ``aborted`` are the first and last
    offsets of aborted records; ``ticks`` are the names and positions of groups.
    """
    last = end if log_end is None else max(end, log_end)
    length = max(last - start, 1)

    def at(offset: int) -> float:
        return _WIDTH * min(max(offset - start, 0), length) / length

    # Offsets that are held up or not committed get a minimum width, so that they are visible however few they are.
    behind_width = max(_WIDTH - at(end), _PART_MIN) if last > end else 0.0
    held_width = max(at(end) - at(stable), _PART_MIN) if end > stable else 0.0
    readable = _WIDTH - behind_width - held_width if end > start else 0.0
    spans = list(aborted)
    label = f"offsets {start} to {end}; last stable offset {stable}; {max(end - stable, 0)} held up"
    if log_end is not None:
        label += f"; log end {last}"
    if spans:
        label += f"; {sum(final + 1 - first for first, final in spans)} aborted of those that were read"
    parts = [
        Markup('<rect class="bar-none" x="0" y="5" width="1000" height="10"/>'),
        Markup('<rect class="bar-readable" x="0" y="5" width="{:.1f}" height="10"/>').format(readable),
    ]
    for name, x, width in (("held", readable, held_width), ("behind", readable + held_width, behind_width)):
        if width:
            parts.append(
                Markup('<rect class="bar-{}" x="{:.1f}" y="5" width="{:.1f}" height="10"/>').format(name, x, width)
            )
    for first, final in spans:
        width = max(at(final + 1) - at(first), _SPAN_MIN)
        parts.append(
            Markup(
                '<rect class="bar-aborted" x="{:.1f}" y="5" width="{:.1f}" height="10"><title>{}</title></rect>'
            ).format(min(at(first), max(readable - width, 0.0)), width, f"aborted: {first} to {final}")
        )
    for name, offset in ticks:
        parts.append(
            Markup('<rect class="bar-tick" x="{:.1f}" y="0" width="6" height="20"><title>{}</title></rect>').format(
                min(at(offset), _WIDTH - 6), f"{name} is at {offset}"
            )
        )
    return Markup(
        '<svg class="bar" viewBox="0 0 1000 20" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    ).format(label, Markup("").join(parts))


def lane(blocks: Iterable[tuple[int, int, str, str]], begin_ms: int, end_ms: int, label: str) -> Markup:
    """Return a bar of time with one block for each (begin, end, tone, title)."""
    length = max(end_ms - begin_ms, 1)
    drawn = [
        Markup(
            '<rect class="lane-{}" x="{:.1f}" y="2" width="{:.1f}" height="26" rx="2"><title>{}</title></rect>'
        ).format(
            escape(tone),
            max(_WIDTH * (begun - begin_ms) / length, 0.0),
            max(_WIDTH * (ended - begun) / length, 3.0),
            title,
        )
        for begun, ended, tone, title in blocks
    ]
    return Markup(
        '<svg class="lane" viewBox="0 0 1000 30" preserveAspectRatio="none" role="img" aria-label="{}">{}</svg>'
    ).format(label, Markup("").join(drawn))
