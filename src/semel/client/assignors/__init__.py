"""The assignors of classic groups: Kafka's four by name, and the interface of an application's own (``Assignor``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from semel.client.assignors.assignor import Assignment, Assignor, RebalanceProtocol, Subscription
from semel.client.assignors.cooperative_sticky import CooperativeStickyAssignor
from semel.client.assignors.range import RangeAssignor
from semel.client.assignors.round_robin import RoundRobinAssignor
from semel.client.assignors.sticky import StickyAssignor

ASSIGNORS: Final[Mapping[str, Callable[[], Assignor]]] = {
    "range": RangeAssignor,
    "roundrobin": RoundRobinAssignor,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
"""The assignors by name. Every consumer makes its own, because some remember what it was assigned."""

__all__ = [
    "ASSIGNORS",
    "Assignment",
    "Assignor",
    "CooperativeStickyAssignor",
    "RangeAssignor",
    "RebalanceProtocol",
    "RoundRobinAssignor",
    "StickyAssignor",
    "Subscription",
    "common_protocol",
    "make_assignors",
]


def make_assignors(strategies: Iterable[str | Assignor]) -> list[Assignor]:
    """Return the assignors that a consumer offers, best first. Raises ``ValueError`` if they cannot be offered."""
    assignors = [_assignor(strategy) for strategy in strategies]
    names = [assignor.name for assignor in assignors]
    if not names:
        raise ValueError("partition.assignment.strategy names no assignor: a member of a group needs one")
    if len(set(names)) < len(names):
        raise ValueError(f"partition.assignment.strategy: {', '.join(names)}: a name can stand only for one assignor")
    common_protocol(assignors)
    return assignors


def common_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """Return the newest rebalance protocol that all these assignors can be used with."""
    protocols = set(RebalanceProtocol).intersection(*(assignor.protocols for assignor in assignors))
    if not protocols:
        each = "; ".join(
            f"{assignor.name}: {', '.join(protocol.name.lower() for protocol in assignor.protocols)}"
            for assignor in assignors
        )
        raise ValueError(f"partition.assignment.strategy: no protocol is common to all assignors ({each})")
    return max(protocols)


def _assignor(strategy: str | Assignor) -> Assignor:
    if not isinstance(strategy, str):
        return strategy
    make = ASSIGNORS.get(_JAVA_NAMES.get(strategy, strategy))
    if make is None:
        raise ValueError(
            f"partition.assignment.strategy: {strategy!r} is none of {', '.join(ASSIGNORS)}; "
            "an assignor of your own is passed as an object"
        )
    return make()


_JAVA_NAMES: Final = {
    f"org.apache.kafka.clients.consumer.{kind}Assignor": name
    for kind, name in {
        "Range": "range",
        "RoundRobin": "roundrobin",
        "Sticky": "sticky",
        "CooperativeSticky": "cooperative-sticky",
    }.items()
}
