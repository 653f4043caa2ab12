"""The interface of a sink beside the topic, its guarantees, and the values that its methods get.

The law: ``write`` makes the rows and the ledger's line visible in one commit of the sink's own system, and only while
the line's owner is this driver. The pipeline does everything else that exactly-once needs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from pyspark.sql import DataFrame

from semel.spark.decision import SourcePartition
from semel.spark.sinks.refused_rows import RefusedRow
from semel.types import TopicPartition


class SinkError(RuntimeError):
    """A sink did not accept a batch, or the outcome of its commit is not known. The batch is tried again."""


class SinkFenced(SinkError):
    """Another driver has become the owner of the ledger's line. This driver must stop."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The driver that may write: its groups, and the producer id and epoch with which it took over their fence.

    A line belongs to the groups and not to the transactional id: another pipeline that takes over the groups finds the
    line of the one before, and no batch of either is written twice.
    """

    groups: str
    """The groups under which the pipeline reads, as ``groups_key`` joins them."""
    producer_id: int
    producer_epoch: int

    def check_not_older_than(self, other: Owner | None, sink: str) -> None:
        """Raises ``SinkFenced`` if ``other``, the line's owner, took over the groups later than this driver.

        Epochs are ordered within a producer id. Producer ids are not ordered, so another id never counts as later.
        """
        if other is not None and other.producer_id == self.producer_id and other.producer_epoch > self.producer_epoch:
            raise SinkFenced(f"{sink} belongs to a later driver: {other} instead of {self}")

    def check_is(self, other: Owner | None, sink: str) -> None:
        """Raises ``SinkFenced`` if ``other``, the line's owner, is not this driver."""
        if other != self:
            raise SinkFenced(f"{sink} was taken over by another driver: {other} instead of {self}")

    def __str__(self) -> str:
        return f"group {self.groups!r} with producer id {self.producer_id} and epoch {self.producer_epoch} of its fence"


def groups_key(group_ids: Iterable[str]) -> str:
    """Return the key of a pipeline's line in a ledger. With one group, as most pipelines have, it is the group id.

    Several ids are joined by ``+``. A ``+`` or a backslash within an id has a backslash before it, so different groups
    have different keys. Keys of ids without these characters are the same as in older versions, which escaped nothing.
    """
    ids = sorted(group_ids)
    if len(ids) == 1 and "+" not in ids[0]:
        return ids[0]
    return "+".join(group_id.replace("\\", "\\\\").replace("+", "\\+") for group_id in ids)


@dataclass(frozen=True, slots=True)
class SinkBatch:
    """A batch in a ledger's line: its query id and number, and the offsets where it ends."""

    query_id: str
    batch_id: int
    end: Mapping[SourcePartition, int]
    generation: int = 0
    """How often the pipeline was rewound. A batch of an earlier generation says nothing about this one."""

    def __str__(self) -> str:
        """Return the batch as JSON, which every ledger can store as a text."""
        end: dict[str, dict[str, dict[str, int]]] = {}
        for (group_id, (topic, partition)), offset in self.end.items():
            end.setdefault(group_id, {}).setdefault(topic, {})[str(partition)] = offset
        said: dict[str, Any] = {"query": self.query_id, "batch": self.batch_id, "end": end}
        if self.generation:
            said["generation"] = self.generation
        return json.dumps(said, sort_keys=True)

    @classmethod
    def parse(cls, text: str) -> SinkBatch:
        """Parse the text of ``__str__``. Raises ``ValueError`` for any other text."""
        try:
            found: dict[str, Any] = json.loads(text)
            end = {
                SourcePartition(group_id, TopicPartition(topic, int(partition))): int(offset)
                for group_id, topics in found["end"].items()
                for topic, partitions in topics.items()
                for partition, offset in partitions.items()
            }
            return cls(str(found["query"]), int(found["batch"]), end, int(found.get("generation", 0)))
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{text!r} is no line of a ledger") from error


@dataclass(frozen=True, slots=True)
class Line:
    """A ledger's line (owner and last batch), for a sink that stores it as one text."""

    owner: Owner | None
    """``None`` if there is no line yet."""
    batch: SinkBatch | None

    def __str__(self) -> str:
        owner = None if self.owner is None else (self.owner.groups, self.owner.producer_id, self.owner.producer_epoch)
        return json.dumps({"owner": owner, "batch": None if self.batch is None else str(self.batch)})

    @classmethod
    def parse(cls, text: str) -> Line:
        """Parse the text of ``__str__``. Raises ``ValueError`` for any other text."""
        try:
            found: dict[str, Any] = json.loads(text)
            owner, batch = found["owner"], found["batch"]
            return cls(
                None if owner is None else Owner(str(owner[0]), int(owner[1]), int(owner[2])),
                None if batch is None else SinkBatch.parse(batch),
            )
        except (TypeError, KeyError, IndexError) as error:
            raise ValueError(f"{text!r} is no line of a ledger") from error


class BatchSink(Protocol):
    """A sink beside the topic. The user creates it, and the pipeline calls it in the driver."""

    @property
    def name(self) -> str:
        """The name of the sink in its ledger, in the notes beside the offsets, in progress and in errors.

        It is unique within the pipeline. Under another name the sink has another line, and begins at the group's
        committed offsets.
        """

    def check(self, rows: DataFrame) -> None:
        """Raise ``Refused``, with what to do, if rows with such columns cannot be written. Change nothing."""

    def prepare(self, owner: Owner) -> None:
        """Create the ledger if there is none, write the owner into the line, and remove what dead drivers have left.

        After this call the commit of any other driver must fail. Raise ``SinkFenced`` if a later driver already owns
        the line.
        """

    def last_batch(self) -> SinkBatch | None:
        """Return the batch in the ledger's line of these groups and this sink; ``None`` if it has none."""

    def write(self, rows: DataFrame, batch: SinkBatch) -> int:
        """Write the rows and the line in one commit, and return how many rows were written.

        Raise ``SinkFenced`` if the line's owner is not the one of ``prepare``. Any other exception means that the batch
        may or may not have been written: ``last_batch`` is called before the next attempt.
        """


@runtime_checkable
class DivertingSink(BatchSink, Protocol):
    """A sink whose system may refuse single rows. In a pipeline with a dead-letter topic it leaves such rows out."""

    def divert(self) -> None:
        """Make ``write`` leave out refused rows from now on, and store them with the line in the same commit.

        Without this call such a row stops the batch with ``BadRow``.
        """

    def refused_rows(self) -> Sequence[RefusedRow]:
        """Return the rows that were left out of the batch in the line."""
