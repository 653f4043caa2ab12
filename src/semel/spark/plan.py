"""The analyzed plan of a streaming DataFrame: which sources it reads, and whether it keeps state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame

from semel.spark.cluster import Cluster
from semel.spark.decision import SourcePartition
from semel.spark.errors import PipelineError
from semel.spark.source.offsets import Offsets
from semel.spark.source.options import SourceOptions
from semel.types import TopicPartition

SOURCE_NAME: Final = "semel"

STATEFUL: Final = frozenset(
    {
        "Aggregate",
        "Deduplicate",
        "DeduplicateWithinWatermark",
        "Distinct",
        "FlatMapGroupsInPandasWithState",
        "FlatMapGroupsWithState",
        "GlobalLimit",
        "TransformWithState",
        "TransformWithStateInPandas",
        "TransformWithStateInPySpark",
    }
)


@dataclass(frozen=True, slots=True)
class QueryPlan:
    sources: tuple[SourceOptions, ...]
    """The query's sources of the format "semel", in the order of Spark's offset log."""
    foreign: tuple[str, ...]
    """The names of streaming sources of other formats."""
    is_stateful: bool
    names: tuple[str | None, ...] = ()
    """The names that the user gave to the sources, if any."""

    @property
    def source_ids(self) -> tuple[str, ...]:
        """Spark's ids of the sources in its offset log: the name of a source, or its number."""
        names = self.names or (None,) * len(self.sources)
        return tuple(str(number) if name is None else name for number, name in enumerate(names))

    @property
    def group_ids(self) -> set[str]:
        return {source.group_id for source in self.sources if source.group_id is not None}

    def source_offsets(self, ends: Sequence[Offsets]) -> dict[SourcePartition, int]:
        """Return the offsets of all sources by group and partition. ``ends`` has one entry for each source, in the
        order of Spark's offset log.

        Raises ``PipelineError`` if two sources with one group have the same partition. A start refuses that, but a
        topic that both match may appear later.
        """
        found: dict[SourcePartition, int] = {}
        for source, offsets in zip(self.sources, ends, strict=True):
            group_id = source.group_id or ""
            for topic_partition, offset in offsets.items():
                partition = SourcePartition(group_id, topic_partition)
                if partition in found:
                    raise PipelineError(read_twice(topic_partition.topic, group_id))
                found[partition] = offset
        return found

    def vanished(self, partitions: Iterable[SourcePartition], cluster: Cluster) -> set[SourcePartition]:
        """Return those of the partitions that no source reads any more, because they were deleted or are no longer
        subscribed to.

        Only with ``failOnDataLoss=false`` a query goes on without them. Raises ``LookupError`` for a topic that is
        named and does not exist.
        """
        read: dict[str, set[TopicPartition]] = {}
        if all(source.fail_on_data_loss for source in self.sources):
            return set()
        for source in self.sources:
            read.setdefault(source.group_id or "", set()).update(source.subscription.partitions(cluster))
        return {partition for partition in partitions if partition.topic_partition not in read[partition.group_id]}

    @classmethod
    def of(cls, df: DataFrame) -> QueryPlan:
        root = df._jdf.queryExecution().analyzed()
        sources: list[SourceOptions] = []
        foreign: list[str] = []
        names: list[str | None] = []
        seen: list[Any] = []
        is_stateful = False
        for node in _nodes(root):
            name = node.getClass().getSimpleName()
            if not node.isStreaming():
                continue
            if name in STATEFUL or (name == "Join" and all(child.isStreaming() for child in _children(node))):
                is_stateful = True
            if node.children().isEmpty() and not any(node.equals(other) for other in seen):
                seen.append(node)
                if name == "StreamingRelationV2" and node.sourceName() == SOURCE_NAME:
                    options = dict(node.extraOptions().asCaseSensitiveMap())
                    sources.append(SourceOptions.parse(options, is_streaming=True))
                    names.append(_name(node))
                else:
                    foreign.append(node.sourceName() if name.startswith("StreamingRelation") else name)
        return cls(tuple(sources), tuple(foreign), is_stateful, tuple(names))


def read_twice(topic: str, group_id: str) -> str:
    """Return the reason why two sources may not read a topic under one group."""
    return (
        f"two sources read {topic!r} under group {group_id!r}, which has one offset for both: give each a "
        "kafka.group.id of its own"
    )


def nondeterministic_in(root: Any) -> list[str]:
    """Return the functions of a plan that Spark marks as not deterministic.

    Functions that depend on the order of rows are not among them: Spark does not mark them.
    """
    found = set()
    waiting = [expression for node in _nodes(root) for expression in _all(node.expressions())]
    while waiting:
        expression = waiting.pop()
        if expression.deterministic():
            continue
        within = [child for child in _children(expression) if not child.deterministic()]
        waiting += within
        if not within:
            is_udf = expression.getClass().getSimpleName() == "PythonUDF"
            found.add(f"the UDF {expression.name()}" if is_udf else str(expression.prettyName()))
    return sorted(found)


def _name(relation: Any) -> str | None:
    """Return the name that ``DataStreamReader.name`` set. ``None`` if there is none, or if this version of Spark has no
    names."""
    try:
        name = relation.sourceIdentifyingName()
    except Py4JError:
        return None
    return str(name.name()) if name.getClass().getSimpleName() == "UserProvided" else None


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    for child in _children(node):
        yield from _nodes(child)


def _children(node: Any) -> list[Any]:
    return _all(node.children())


def _all(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]
