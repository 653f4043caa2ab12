"""A question of an admin client, as a value: the kind of request, which broker serves it, how to read the response.

The keys of an ``Ask`` are things of one kind (topics, groups, partitions, brokers). The keys that belong to the same
broker are sent in one request, and each has its own outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from semel.client.machine.connection.coordinators import CoordinatorKey, CoordinatorType
from semel.errors import ErrorCode, named
from semel.types import TopicPartition
from semel.wire.apis import ApiKey

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class AnyBroker:
    """The broker with the fewest requests in flight."""


@dataclass(frozen=True, slots=True)
class Controller:
    """The broker that changes the cluster's metadata, or passes requests on to the one that does."""


@dataclass(frozen=True, slots=True)
class Leader:
    topic_partition: TopicPartition


@dataclass(frozen=True, slots=True)
class CoordinatorTarget:
    """The coordinator of a group or of a transactional id."""

    key: CoordinatorKey


@dataclass(frozen=True, slots=True)
class NodeTarget:
    """One broker, by its id."""

    node_id: int


Target: TypeAlias = AnyBroker | Controller | Leader | CoordinatorTarget | NodeTarget


def coordinator_of_group(group_id: str) -> CoordinatorTarget:
    return CoordinatorTarget(CoordinatorKey(CoordinatorType.GROUP, group_id))


def coordinator_of_transaction(transactional_id: str) -> CoordinatorTarget:
    return CoordinatorTarget(CoordinatorKey(CoordinatorType.TRANSACTION, transactional_id))


class Refusal(NamedTuple):
    """The error of one key, instead of a value."""

    code: ErrorCode
    message: str = ""


def outcome(value: V, code: int, message: str | None = None) -> V | Refusal:
    """Return ``value``, or the ``Refusal`` if there is an error code."""
    return value if code == ErrorCode.NONE else Refusal(named(code), message or "")


CLUSTER: Final = "the cluster"
"""The only key of an ask about the whole cluster."""


@dataclass(frozen=True, slots=True, eq=False)
class Ask(Generic[K, V]):
    """One kind of question, about any number of keys.

    ``build(keys, version)`` makes the request, ``read(response, keys, version)`` yields the outcome of each key.
    ``name`` returns a key as it reads in a sentence: "topic 'orders'". With ``is_single`` every key has a request of
    its own, for requests that can hold only one.
    """

    api_key: ApiKey
    target: Callable[[K], Target]
    build: Callable[[Sequence[K], int], object]
    read: Callable[[Any, Sequence[K], int], Iterable[tuple[K, V | Refusal]]]
    name: Callable[[K], str] = str
    is_single: bool = False
    version_min: int | None = None
    version_max: int | None = None


def is_authoritative(target: Target) -> bool:
    """Whether "does not exist" is final when this broker says it: others may learn of a new topic a moment later."""
    return isinstance(target, Controller)
