"""The analyzed plan of a streaming DataFrame: which sources it reads, and whether it keeps state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import DataFrame

from semel.spark.source.options import SourceOptions

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
    """In the order in which Spark's offset log has them."""
    foreign: tuple[str, ...]
    """Streaming sources that are not ours."""
    is_stateful: bool

    @classmethod
    def of(cls, df: DataFrame) -> QueryPlan:
        root = df._jdf.queryExecution().analyzed()
        sources: list[SourceOptions] = []
        foreign: list[str] = []
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
                else:
                    foreign.append(node.sourceName() if name.startswith("StreamingRelation") else name)
        return cls(tuple(sources), tuple(foreign), is_stateful)


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    for child in _children(node):
        yield from _nodes(child)


def _children(node: Any) -> list[Any]:
    children = node.children()
    return [children.apply(index) for index in range(children.size())]
