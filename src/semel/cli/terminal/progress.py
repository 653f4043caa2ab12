"""A progress line for the terminal.

It is drawn on standard error, only on a terminal, and only after an operation has taken longer than a second.
"""

from __future__ import annotations

import sys
import time
from typing import Final, TextIO

_PATIENCE_S: Final = 1.0
_REDRAW_S: Final = 0.1
_WIDTH: Final = 30


class Progress:
    """A progress line, drawn while its block runs. If ``total`` is ``None``, it shows the count and the rate only."""

    def __init__(self, what: str, total: int | None = None, *, stream: TextIO | None = None) -> None:
        self._what = what
        self._total = total
        self._stream = sys.stderr if stream is None else stream
        self._done = 0
        self._started = time.monotonic()
        self._drawn_at = 0.0
        self._is_drawn = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._is_drawn:
            self._stream.write("\r\033[K")
            self._stream.flush()

    def advance(self, count: int = 1) -> None:
        self._done += count
        now = time.monotonic()
        if now - self._started >= _PATIENCE_S and now - self._drawn_at >= _REDRAW_S and self._stream.isatty():
            self._drawn_at, self._is_drawn = now, True
            self._stream.write(f"\r\033[K{self.line(now - self._started)}")
            self._stream.flush()

    def line(self, elapsed_s: float) -> str:
        rate = self._done / elapsed_s if elapsed_s else 0.0
        if not self._total:
            return f"{self._what}: {self._done:,} ({rate:,.0f}/s)"
        share = min(self._done / self._total, 1.0)
        bar = ("#" * int(share * _WIDTH)).ljust(_WIDTH, ".")
        left_s = (self._total - self._done) / rate if rate else 0.0
        return f"{self._what}: [{bar}] {share:4.0%} {self._done:,} of {self._total:,}, {left_s:.0f} s left"
