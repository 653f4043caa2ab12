"""The errors with which a running pipeline stops, and the one line of Spark's error text that says what is wrong."""

from __future__ import annotations

import re
from typing import Final

# Spark's error text quotes Python errors between lines of Java. _OURS finds an error of Semel with its module and text,
# _PYTHON the last line of any Python traceback.
_OURS: Final = re.compile(r"\bsemel(?P<home>(?:\.\w+)+)\.[A-Z]\w*: (?P<text>.+)")
_PYTHON: Final = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(?P<text>\S.*)")


class PipelineError(RuntimeError):
    """The pipeline stops. Nothing of the batch was committed, unless the message says otherwise."""


class Superseded(PipelineError):
    """Another driver has taken over the transactional id, or another pipeline a group; this driver must stop."""


class BrokersAway(PipelineError):
    """The brokers were away for longer than the pipeline waits."""

    def __init__(self, error: BaseException, setting: str, waited_ms: object) -> None:
        super().__init__(
            f"the brokers were away for longer than {setting}={waited_ms} ({error}). Start the query again when they "
            "are back: it goes on where it was, and nothing is lost or doubled"
        )


def in_one_line(error: BaseException) -> str:
    """Return the text of an error of another system, such as a database, in one line: what is in the second line is
    often the value that the first one is about."""
    return " ".join(str(error).split())


def sentence_of(error: BaseException) -> str:
    """Return one line that says what went wrong. ``error`` may be Spark's, with a text of thousands of characters.

    In a chain of errors the pipeline's own is the most useful one, and Python prints it after its cause: so the last
    one is returned.
    """
    said = str(error)
    found = list(_OURS.finditer(said))
    of_pipeline = [match["text"] for match in found if match["home"].startswith(".spark")]
    raised = [match["text"] for match in _PYTHON.finditer(said)]
    for texts in (of_pipeline[-1:], [match["text"] for match in found[:1]], raised[-1:], said.splitlines()):
        for text in texts:
            if text.strip():
                return text.strip()
    return type(error).__name__
