"""The note that a Spark pipeline commits beside each offset: written by ``semel.spark``, and read by it and by the
console.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Note:
    """The metadata of a committed offset: the checkpoint and the batch that committed it.

    ``begin`` is where batch 0 begins. Spark does not write that down: it asks the source again whenever batch 0 is run
    again, and by then the offset itself may have moved on. ``sinks`` are those beside the topic that have the batch.
    ``owner`` is the pipeline's transactional id; offsets that an older version committed lack it. ``generation`` is how
    often the pipeline was rewound.
    """

    query_id: str
    batch_id: int
    begin: int | None = None
    sinks: tuple[str, ...] = ()
    owner: str | None = None
    generation: int = 0

    def __str__(self) -> str:
        fields = {
            "query": self.query_id,
            "batch": self.batch_id,
            "begin": self.begin,
            "sinks": self.sinks or None,
            "owner": self.owner,
            "generation": self.generation or None,
        }
        return json.dumps({name: value for name, value in fields.items() if value is not None})

    @classmethod
    def parse(cls, text: str) -> Note | None:
        """Parse the metadata of a committed offset, which any client may have written; ``None`` if no pipeline did."""
        try:
            found = json.loads(text)
            begin, owner = found.get("begin"), found.get("owner")
            return cls(
                str(found["query"]),
                int(found["batch"]),
                None if begin is None else int(begin),
                tuple(map(str, found.get("sinks", ()))),
                None if owner is None else str(owner),
                int(found.get("generation", 0)),
            )
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            return None


def latest_note(texts: Iterable[str]) -> Note | None:
    """Return the note of the batch that has committed a group's offsets; ``None`` if no text is a note.

    A batch commits the offsets of all partitions that it reads. So its note is the one that most partitions have; other
    notes are of partitions that are no longer read.
    """
    counts = Counter(note for note in map(Note.parse, texts) if note is not None)
    return max(counts, key=lambda note: (note.generation, counts[note], note.batch_id), default=None)
