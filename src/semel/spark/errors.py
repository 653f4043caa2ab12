"""The errors with which a running pipeline stops, and the one sentence in what Spark makes of an error."""

from __future__ import annotations

import re
from typing import Final

# An error of ours, and the last line of any traceback of Python, as Spark quotes them among lines of Java.
_OURS: Final = re.compile(r"\bsemel(?P<home>(?:\.\w+)+)\.[A-Z]\w*: (?P<text>.+)")
_PYTHON: Final = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(?P<text>\S.*)")


class PipelineError(RuntimeError):
    """The pipeline stops. Nothing of the batch was committed, unless the message says so."""


class Superseded(PipelineError):
    """Another driver has taken over the transactional id, or another pipeline a group; this driver must stop."""


class BrokersAway(PipelineError):
    """The brokers were away for longer than the pipeline waits."""

    def __init__(self, error: BaseException, setting: str, waited_ms: object) -> None:
        super().__init__(
            f"the brokers were away for longer than {setting}={waited_ms} ({error}). Start the query again when they "
            "are back: it goes on where it was, and nothing is lost or doubled"
        )


def sentence_of(error: BaseException) -> str:
    """What went wrong, in one line, of an error that may be Spark's with thousands of characters.

    Of a chain of errors the pipeline's own says most, and Python quotes it behind what caused it.
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
