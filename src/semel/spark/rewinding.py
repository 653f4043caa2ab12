"""Rewinding: a pipeline begins again at other offsets, in a new generation. What was written before is not changed.

A generation is a number in the notes beside the group's offsets. It says which checkpoint and which ledger lines count,
so a rewind is a single Kafka transaction, which commits the new offsets with the next number. docs/design/sinks.md says
what a crash leaves behind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from semel.client.values import OffsetAndMetadata
from semel.spark.checkpoint import Checkpoint
from semel.spark.decision import Note, SourcePartition
from semel.spark.refusals import Refused
from semel.spark.source.offsets import AtTime, OffsetRangeLimit, parse_offsets_option

_FOLDER: Final = "generations"
_OPTION: Final = "the place to rewind to"
_BEFORE_THE_FIRST: Final = -1


@dataclass(frozen=True, slots=True)
class Move:
    """The move of one partition: the group's committed offset, and the offset at which it begins again."""

    partition: SourcePartition
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
    """What a rewind would do, or has done. Numbers are of offsets, and so include markers."""

    moves: tuple[Move, ...]
    generation: int
    """The number of the new generation."""
    checkpoint: str
    """The checkpoint location of the new generation."""
    outputs: tuple[str, ...]
    """The topics and sinks to which the output is written again."""
    is_stateful: bool
    is_done: bool

    @property
    def read_again(self) -> int:
        return sum(move.read_again for move in self.moves)

    @property
    def left_out(self) -> int:
        """The number of offsets that are never read, because the pipeline moves forward over them."""
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

    def offsets(self, owner: str) -> dict[SourcePartition, OffsetAndMetadata]:
        """Return the offsets to commit: the start of the new generation, with notes that name no sink."""
        return {
            move.partition: OffsetAndMetadata(
                move.target, str(Note("", _BEFORE_THE_FIRST, move.target, owner=owner, generation=self.generation))
            )
            for move in self.moves
        }


def parse_target(text: str) -> OffsetRangeLimit:
    """Parse the place to rewind to: ``earliest``, ``latest``, offsets as in ``startingOffsets``, or a time.

    Raises ``Refused``.
    """
    said = text.strip()
    try:
        if said.lower() in ("earliest", "latest") or said.startswith("{"):
            return parse_offsets_option(_OPTION, said)
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
    targets: Mapping[SourcePartition, int],
    committed: Mapping[SourcePartition, OffsetAndMetadata],
    begins: Mapping[SourcePartition, int],
    ends: Mapping[SourcePartition, int],
) -> tuple[Move, ...]:
    """Return the move of each partition to its target.

    ``begins`` and ``ends`` are the first and the end offset of each partition. Raises ``Refused`` for a target that is
    not between them.
    """
    moves = []
    for partition, target in sorted(targets.items()):
        if not begins[partition] <= target <= ends[partition]:
            raise Refused(
                f"{partition.topic_partition} has offsets from {begins[partition]} up to {ends[partition]}, and not "
                f"{target}: rewind to one of these"
            )
        moves.append(Move(partition, committed[partition].offset if partition in committed else target, target))
    return tuple(moves)


def generation_of(committed: Iterable[OffsetAndMetadata]) -> int | None:
    """Return the generation in the notes beside a group's offsets; ``None`` if there is no note."""
    notes = [Note.parse(at.metadata) for at in committed]
    return max((note.generation for note in notes if note is not None), default=None)


def last_generation(checkpoint: Checkpoint) -> int:
    """Return the number of the last generation that has a checkpoint. ``checkpoint`` is the one that the user named."""
    return max((int(name) for name in checkpoint.folders(_FOLDER) if name.isdigit()), default=0)


def location_of(checkpoint: str, generation: int) -> str:
    """Return the checkpoint location of a generation.

    It is within the one that the user named, so that a copy of that has the checkpoints of all generations.
    """
    return checkpoint if not generation else f"{checkpoint.rstrip('/')}/{_FOLDER}/{generation}"
