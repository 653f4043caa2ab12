"""The picture: for every row a bar that shows how many times better Semel is, on a scale of doublings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from benchmarks.measuring import Row
from benchmarks.table import Figure, advantage

_LINE, _TOP, _LEFT, _WIDTH, _RIGHT = 26, 80, 330, 480, 90
_BETTER, _WORSE, _INK, _FAINT = "#2f7d5b", "#b4553a", "#222222", "#cccccc"


def svg(rows: Sequence[Row], figure: Figure, subtitle: str) -> str:
    """An SVG image, readable on its own; rows that have no counterpart are left out."""
    bars = [(row, times) for row in rows if (times := advantage(row, figure)) is not None]
    low = min([0.0, *(math.log2(times) for _, times in bars)])
    high = max([1.0, *(math.log2(times) for _, times in bars)])

    def x(times: float) -> float:
        return _LEFT + _WIDTH * (math.log2(times) - low) / (high - low)

    height = _TOP + _LINE * len(bars) + 20
    size = f'width="{_LEFT + _WIDTH + _RIGHT}" height="{height}"'
    font = f'font-family="system-ui, sans-serif" font-size="13" fill="{_INK}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {font}>',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        _text(16, 24, "Semel beside Apache Kafka: how many times better", size=16),
        _text(16, 44, subtitle, size=11),
    ]
    for exponent in range(math.ceil(low), math.floor(high) + 1):
        at = x(2.0**exponent)
        stroke = _INK if exponent == 0 else _FAINT
        parts.append(f'<line x1="{at:.1f}" y1="{_TOP - 6}" x2="{at:.1f}" y2="{height - 14}" stroke="{stroke}"/>')
        parts.append(_text(at, _TOP - 9, f"{2.0**exponent:g} x", size=10, anchor="middle"))
    for number, (row, times) in enumerate(bars):
        y = _TOP + _LINE * number
        left, right = sorted((x(1.0), x(times)))
        color = _BETTER if times >= 1 else _WORSE
        parts.append(_text(_LEFT - 10, y + 15, row.title, anchor="end"))
        parts.append(
            f'<rect x="{left:.1f}" y="{y + 4}" width="{right - left:.1f}" height="{_LINE - 9}" fill="{color}"/>'
        )
        parts.append(_text(right + 5, y + 15, f"{times:.2g} x", size=12))
    return "\n".join([*parts, "</svg>", ""])


def _text(x: float, y: float, words: str, *, size: int = 13, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y}" font-size="{size}" text-anchor="{anchor}">{escape(words)}</text>'
