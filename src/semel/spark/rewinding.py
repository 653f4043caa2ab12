"""Rewinding: a pipeline begins again at other offsets, in a new generation. Everything before it stays as it was.

A generation is a number in the notes beside the group's offsets. It names the checkpoint that counts and the ledger
lines that count, so one Kafka transaction with the new offsets and the next number is all that a rewind is.
docs/design/sinks.md says what a crash leaves behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from semel.client.values import OffsetAndMetadata
from semel.spark.checkpoint import Checkpoint
from semel.spark.decision import Note, Place
from semel.spark.refusals import Refused
from semel.spark.source.offsets import AtTime, parse_place
from semel.spark.source.offsets import Place as Where

_FOLDER: Final = "generations"
_OPTION: Final = "the place to rewind to"
_BEFORE_THE_FIRST: Final = -1


@dataclass(frozen=True, slots=True)
class Move:
    """One partition: where the group is, and where it begins again."""

    place: Place
    committed: int
    target: int

    @property
    def read_again(self) -> int:
        return max(0, self.committed - self.target)

    @property
    def left_out(self) -> int:
        return max(0, self.target - self.committed)


@dataclass(frozen=True, slots=True)
class Rewind:
    """What a rewind does, or has done. Offsets are counted, among them those of markers."""

    moves: tuple[Move, ...]
    generation: int
    """The one that begins."""
    checkpoint: str
    """Its checkpoint location."""
    outputs: tuple[str, ...]
    """Where what is read again is written again."""
    is_stateful: bool
    is_done: bool

    @property
    def read_again(self) -> int:
        return sum(move.read_again for move in self.moves)

    @property
    def left_out(self) -> int:
        """Offsets that no generation reads, if it goes forward."""
        return sum(move.left_out for move in self.moves)

    @property
    def warnings(self) -> list[str]:
        found = []
        if self.read_again:
            found.append(
                f"what {self.read_again} offsets gave is written again to {', '.join(self.outputs)}: append keeps "
                "both, upsert replaces rows with equal keys"
            )
        if self.left_out:
            found.append(f"{self.left_out} offsets are left out: nothing of them is written")
        if self.is_stateful:
            found.append("the query keeps state, which begins empty: totals are of what comes from there on")
        return found

    def offsets(self, owner: str) -> dict[Place, OffsetAndMetadata]:
        """What is committed: the start of the new generation, which no sink has anything of."""
        return {
            move.place: OffsetAndMetadata(
                move.target, str(Note("", _BEFORE_THE_FIRST, move.target, owner=owner, generation=self.generation))
            )
            for move in self.moves
        }


def parse_target(text: str) -> Where:
    """``earliest``, ``latest``, offsets as ``startingOffsets`` has them, or a time. Raises ``Refused``."""
    said = text.strip()
    try:
        if said.lower() in ("earliest", "latest") or said.startswith("{"):
            return parse_place(_OPTION, said)
        if said.isascii() and said.isdigit():
            return AtTime(int(said), or_latest=True)
        moment = datetime.fromisoformat(said)
    except ValueError as error:
        if said.startswith("{"):
            raise Refused(str(error)) from None
        raise Refused(
            f"{text!r} is no place to rewind to: write earliest, latest, 2026-01-31T12:00:00Z, milliseconds since "
            '1970, or {"orders": {"0": 23}}'
        ) from None
    utc = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return AtTime(int(utc.timestamp() * 1000), or_latest=True)


def moves_to(
    targets: Mapping[Place, int],
    committed: Mapping[Place, OffsetAndMetadata],
    begins: Mapping[Place, int],
    ends: Mapping[Place, int],
) -> tuple[Move, ...]:
    """``begins``, ``ends``: what the partitions have. Raises ``Refused`` for an offset that they do not have."""
    moves = []
    for place, target in sorted(targets.items()):
        if not begins[place] <= target <= ends[place]:
            raise Refused(
                f"{place.topic_partition} has offsets from {begins[place]} up to {ends[place]}, and not {target}: "
                "rewind to one of these"
            )
        moves.append(Move(place, committed[place].offset if place in committed else target, target))
    return tuple(moves)


def generation_of(committed: Iterable[OffsetAndMetadata]) -> int | None:
    """The generation in which the group is; ``None`` if no note tells."""
    notes = [Note.parse(at.metadata) for at in committed]
    return max((note.generation for note in notes if note is not None), default=None)


def last_generation(checkpoint: Checkpoint) -> int:
    """The last one that has a checkpoint. ``checkpoint`` is the one that the user named."""
    return max((int(name) for name in checkpoint.folders(_FOLDER) if name.isdigit()), default=0)


def location_of(checkpoint: str, generation: int) -> str:
    """Where a generation has its checkpoint: within the one that the user named, so that a copy has them all."""
    return checkpoint if not generation else f"{checkpoint.rstrip('/')}/{_FOLDER}/{generation}"
