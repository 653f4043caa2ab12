"""What a sink beside the topic promises, and the values that it is handed.

The law: ``write`` makes the rows and the ledger's line visible in one commit of the sink's own system, and only while
the line's owner is this driver. Everything else about exactly-once is done for the sink.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from pyspark.sql import DataFrame

from semel.spark.decision import Place
from semel.spark.sinks.refused_rows import RefusedRow
from semel.types import TopicPartition


class SinkError(RuntimeError):
    """A sink did not take a batch, or did not say whether it took it. The batch is tried again."""


class SinkFenced(SinkError):
    """Another driver has become the owner of the ledger's line. This driver must stop."""


@dataclass(frozen=True, slots=True)
class Owner:
    """The driver that may write: the identity with which it took over the fence of its groups.

    A line is kept for the groups and not for the transactional id: another pipeline that takes over the groups finds
    the line of the one before, and no batch of either is written twice.
    """

    groups: str
    """The groups under which the pipeline reads, as ``groups_key`` joins them."""
    producer_id: int
    producer_epoch: int

    def check_not_older_than(self, other: Owner | None, sink: str) -> None:
        """Raises ``SinkFenced`` if the line's owner came later.

        Epochs are ordered within a producer id. Producer ids are not ordered.
        """
        if other is not None and other.producer_id == self.producer_id and other.producer_epoch > self.producer_epoch:
            raise SinkFenced(f"{sink} belongs to a later driver: {other} instead of {self}")

    def check_is(self, other: Owner | None, sink: str) -> None:
        """Raises ``SinkFenced`` if the line's owner is not this driver."""
        if other != self:
            raise SinkFenced(f"{sink} was taken over by another driver: {other} instead of {self}")

    def __str__(self) -> str:
        return f"group {self.groups!r} with producer id {self.producer_id} and epoch {self.producer_epoch} of its fence"


def groups_key(group_ids: Iterable[str]) -> str:
    """The key of a pipeline's line. Most pipelines have one group, whose id it is.

    Different groups have different keys: ``+`` separates them, and one within an id has a backslash before it, as has a
    backslash. So ids without these have the keys that they had when nothing was escaped.
    """
    ids = sorted(group_ids)
    if len(ids) == 1 and "+" not in ids[0]:
        return ids[0]
    return "+".join(group_id.replace("\\", "\\\\").replace("+", "\\+") for group_id in ids)


@dataclass(frozen=True, slots=True)
class SinkBatch:
    """A batch as a ledger's line has it: which one it was, and where it ended."""

    query_id: str
    batch_id: int
    end: Mapping[Place, int]
    generation: int = 0
    """How often the pipeline was rewound. A batch of an earlier generation says nothing about this one."""

    def __str__(self) -> str:
        """JSON, which every ledger can keep as a text."""
        end: dict[str, dict[str, dict[str, int]]] = {}
        for (group_id, (topic, partition)), offset in self.end.items():
            end.setdefault(group_id, {}).setdefault(topic, {})[str(partition)] = offset
        said: dict[str, Any] = {"query": self.query_id, "batch": self.batch_id, "end": end}
        if self.generation:
            said["generation"] = self.generation
        return json.dumps(said, sort_keys=True)

    @classmethod
    def parse(cls, text: str) -> SinkBatch:
        """Raises ``ValueError`` for a text that no ledger has."""
        try:
            found: dict[str, Any] = json.loads(text)
            end = {
                Place(group_id, TopicPartition(topic, int(partition))): int(offset)
                for group_id, topics in found["end"].items()
                for topic, partitions in topics.items()
                for partition, offset in partitions.items()
            }
            return cls(str(found["query"]), int(found["batch"]), end, int(found.get("generation", 0)))
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{text!r} is no line of a ledger") from error


@dataclass(frozen=True, slots=True)
class Line:
    """A ledger's line, for a sink that keeps it as one text."""

    owner: Owner | None
    """``None``: there is no line yet."""
    batch: SinkBatch | None

    def __str__(self) -> str:
        owner = None if self.owner is None else (self.owner.groups, self.owner.producer_id, self.owner.producer_epoch)
        return json.dumps({"owner": owner, "batch": None if self.batch is None else str(self.batch)})

    @classmethod
    def parse(cls, text: str) -> Line:
        """Raises ``ValueError`` for a text that no ledger has."""
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
    """A sink beside the topic. It is made by the user and called by the pipeline, in the driver."""

    @property
    def name(self) -> str:
        """Names the sink in its ledger, in the notes beside the offsets, in progress and in errors.

        It is unique within the pipeline. Under another name the sink has another line, and begins where the group is.
        """

    def check(self, rows: DataFrame) -> None:
        """Raise ``Refused``, with what to do, if rows such as these cannot be written. Change nothing."""

    def prepare(self, owner: Owner) -> None:
        """Make the ledger if there is none, put the owner into the line, and remove what dead drivers have left.

        From here on the commit of any other driver must fail. Raise ``SinkFenced`` if a later driver is there already.
        """

    def last_batch(self) -> SinkBatch | None:
        """The batch in the line of these groups and this sink."""

    def write(self, rows: DataFrame, batch: SinkBatch) -> int:
        """Write the rows and the line in one commit, and return how many rows were written.

        Raise ``SinkFenced`` if the line's owner is not the one of ``prepare``. Any other exception means that the batch
        may or may not be there: ``last_batch`` is asked before the next attempt.
        """


@runtime_checkable
class DivertingSink(BatchSink, Protocol):
    """A sink whose system may refuse a single row. In a pipeline with a dead-letter topic it leaves such rows out."""

    def divert(self) -> None:
        """From now on ``write`` leaves out rows that are refused, and keeps them in the commit of the line.

        Without this call such a row stops the batch with ``BadRow``.
        """

    def refused_rows(self) -> Sequence[RefusedRow]:
        """What was left out of the batch in the line."""
