"""Escapes and limits the log lines of a broker.

Names that clients choose (topics, groups, transactional ids, client ids) appear in log lines. A name with a line break
in it could forge a log line, and one line for every bad request could fill the disk. The law, for every logger of the
broker, whatever handlers and formats the application has:

- No character of a message can begin a new line or move the cursor: unprintable characters are escaped, and a message
  has a maximum length. The lines of a traceback are indented, so that none looks like a line of the log.
- A log statement that clients can trigger writes ``LINES_AT_ONCE_MAX`` lines at once, and then ``LINES_PER_SECOND``.
  The other lines are counted, and the next line that is written contains their number.

The number of lines that are logged while a broker starts, or about its files, is not limited: each names another file.
"""

from __future__ import annotations

import logging
import traceback
from typing import Final

MESSAGE_CHARACTERS_MAX: Final = 1000
TRACEBACK_CHARACTERS_MAX: Final = 20_000
LINES_AT_ONCE_MAX: Final = 20
LINES_PER_SECOND: Final = 1

LOGGERS: Final = (
    "semel.broker",
    "semel.broker.security",
    "semel.coordinator.group.records",
    "semel.coordinator.transaction.records",
    "semel.log.durability.checkpointer",
    "semel.log.compaction.cleaner",
    "semel.log.durability.commit",
    "semel.log.compaction.batch_filter",
    "semel.log.compaction.cleaning",
    "semel.log.directory",
    "semel.log.durability.journal_replay",
    "semel.log.recovery.identity",
    "semel.log.recovery.loading",
    "semel.log.recovery.startup",
    "semel.log.partition_log",
    "semel.loop",
    "semel.metadata.store_files",
)
# Prefixes of the loggers with lines that a request, or the content of a record, can cause.
_LIMITED: Final = ("semel.broker", "semel.coordinator.", "semel.log.compaction.", "semel.loop")
# Prefixes of loggers that are not part of a broker.
_OTHERS: Final = ("semel.client", "semel.spark", "semel.cli", "semel.testing")
_INDENTATION: Final = "    "
_SEEN: Final = "semel_line"


def guard_log_lines() -> None:
    """Install the filter on all loggers of a broker, and reset its limits: a broker that starts has fresh ones."""
    _filter.forget()
    for name in guarded_loggers():
        logging.getLogger(name).addFilter(_filter)  # A filter is added once, however often this is called.


def guarded_loggers() -> set[str]:
    """Return the names of the broker's loggers, also of modules that are imported only when they are needed."""
    known = {name for name in logging.root.manager.loggerDict if name.startswith("semel.")}
    return {name for name in known if not name.startswith(_OTHERS)} | set(LOGGERS)


def guard_handlers() -> None:
    """Escape the log lines of libraries too. For a process that is only a broker."""
    for handler in logging.root.handlers:
        handler.addFilter(_filter)


def escaped(text: str, characters_max: int = MESSAGE_CHARACTERS_MAX) -> str:
    """Return the text on one line: unprintable characters are escaped, and a long text is cut."""
    if len(text) > characters_max:
        text = f"{text[:characters_max]}... ({len(text) - characters_max} more characters)"
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


class LineFilter(logging.Filter):
    """The filter that escapes log records and limits their number.

    It is a filter and not a formatter, so that it works before every handler, also those of an application that
    contains the broker.
    """

    def __init__(self) -> None:
        super().__init__()
        self._places: dict[tuple[str, int], LineLimit] = {}

    def forget(self) -> None:
        """Reset the limits of all statements that log."""
        self._places.clear()

    def filter(self, record: logging.LogRecord) -> bool:
        if hasattr(record, _SEEN):
            return True
        setattr(record, _SEEN, True)
        left_out = 0
        if record.name.startswith(_LIMITED):
            key = (record.pathname, record.lineno)
            place = self._places.get(key)
            if place is None:
                place = self._places[key] = LineLimit(LINES_AT_ONCE_MAX, LINES_PER_SECOND)
            if not place.may_write(record.created):
                return False
            left_out = place.take_left_out()
        message = escaped(record.getMessage())
        if left_out:
            message += f" ({left_out} more lines like this one were left out)"
        record.msg, record.args = message, ()
        if record.exc_info and record.exc_info[0] is not None:
            record.exc_text = _indented("".join(traceback.format_exception(*record.exc_info)))
        return True


class LineLimit:
    """The rate limit of log lines: those of one statement in the code, or those about one client."""

    __slots__ = ("_allowed", "_at_once_max", "_at_s", "_per_second", "left_out")

    def __init__(self, at_once_max: int, per_second: float) -> None:
        self._at_once_max = at_once_max
        self._per_second = per_second
        self._allowed = float(at_once_max)
        self._at_s: float | None = None
        self.left_out = 0

    def may_write(self, now_s: float) -> bool:
        if self._at_s is not None and now_s > self._at_s:
            self._allowed = min(self._allowed + (now_s - self._at_s) * self._per_second, self._at_once_max)
        self._at_s = now_s
        if self._allowed < 1:
            self.left_out += 1
            return False
        self._allowed -= 1
        return True

    def take_left_out(self) -> int:
        """Return how many lines were left out since the last line that was written, and reset that number."""
        left_out, self.left_out = self.left_out, 0
        return left_out


def _indented(text: str) -> str:
    if len(text) > TRACEBACK_CHARACTERS_MAX:
        half = TRACEBACK_CHARACTERS_MAX // 2
        text = f"{text[:half]}\n...\n{text[-half:]}"
    return "\n".join(_INDENTATION + escaped(line) for line in text.splitlines())


_filter: Final = LineFilter()
