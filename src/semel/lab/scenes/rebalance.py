"""Scene 9: a third member joins a group of two, under each of Kafka's four assignors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from semel.blocking import Consumer
from semel.lab.scene import Fact, Scene, Verdict
from semel.lab.stage import Stage
from semel.testing.tracing.wire_trace import WireEventKind
from semel.types import TopicPartition

_PARTITIONS: Final = 7
_EAGER: Final = ("range", "roundrobin", "sticky")
_COOPERATIVE: Final = "cooperative-sticky"
_COMPARED: Final = {
    "range": "range: interrupted / moved",
    "roundrobin": "roundrobin: interrupted / moved",
    "sticky": "sticky: interrupted / moved",
    "cooperative-sticky": "cooperative-sticky: interrupted / moved",
}


@dataclass(slots=True)
class _Listener:
    """The listener of one member: it collects the partitions that the member had to give up."""

    revoked: list[TopicPartition] = field(default_factory=list)

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        pass

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.revoked += partitions


@dataclass(frozen=True, slots=True)
class _Moved:
    """How many partitions the rebalance for the third member has affected."""

    interrupted: int
    """Partitions that a member had to give up and got back: meanwhile nothing was read from them."""
    moved: int
    """Partitions that have another owner than before."""


def _play(stage: Stage) -> Verdict:
    stage.broker()
    stage.topic("orders", partitions=_PARTITIONS, shown=False)
    stage.show("JoinGroup", "SyncGroup")
    costs: dict[str, _Moved] = {}
    for assignor in (*_EAGER, _COOPERATIVE):
        costs[assignor] = _third_member_joins(stage, assignor)
    chosen = _COOPERATIVE if stage.protected else _EAGER[0]
    facts = [
        Fact("assignor", chosen),
        Fact("partitions interrupted although they stay where they are", costs[chosen].interrupted, 0),
        # The third member needs at least its share of seven partitions: two.
        Fact("partitions that changed hands", costs[chosen].moved, 2 if stage.protected else None),
    ]
    facts += [
        Fact(f"{name}: interrupted / moved", f"{cost.interrupted} / {cost.moved}") for name, cost in costs.items()
    ]
    return Verdict(tuple(facts))


def _third_member_joins(stage: Stage, assignor: str) -> _Moved:
    group = f"readers-{assignor}"
    listeners = [_Listener() for _ in range(3)]
    members: list[Consumer] = []

    def join() -> None:
        number = len(members)
        member = stage.consumer(
            f"member-{number + 1}",
            group_id=group,
            partition_assignment_strategy=assignor,
            heartbeat_interval_ms=20,
            enable_auto_commit=False,
        )
        member.subscribe(["orders"], listener=listeners[number])
        members.append(member)
        stage.wait_for("the group to settle", lambda: _is_settled(members))

    join()
    join()
    before = _owners(members)
    stage.skip()
    first = len(stage.wire)
    for listener in listeners:
        listener.revoked.clear()
    join()
    after = _owners(members)
    revoked = [partition for listener in listeners for partition in listener.revoked]
    rounds = len(
        {
            event.fields["generation"]
            for event in stage.wire[first:]
            if event.api == "JoinGroup" and event.kind is WireEventKind.ANSWER and "generation" in event.fields
        }
    )
    moved = sum(before[partition] != after[partition] for partition in before)
    interrupted = sum(before[partition] == after[partition] for partition in revoked)
    stage.step(
        "{assignor}: a third member joins. All join again (JoinGroup), the leader assigns the partitions (SyncGroup). "
        "Generations: {rounds}. Partitions taken away and given back: {interrupted}. Partitions that change hands: "
        "{moved}.",
        assignor=assignor,
        rounds=rounds,
        interrupted=interrupted,
        moved=moved,
    )
    for number, member in enumerate(members):
        member.close()
        stage.forget(f"member-{number + 1}")
    return _Moved(interrupted, moved)


def _is_settled(members: list[Consumer]) -> bool:
    """Whether every partition has one owner, and no member has many more than another."""
    for member in members:
        member.poll(1)
    sizes = [len(member.assignment) for member in members]
    return len(_owners(members)) == sum(sizes) == _PARTITIONS and max(sizes) - min(sizes) <= 1


def _owners(members: list[Consumer]) -> dict[TopicPartition, int]:
    return {partition: number for number, member in enumerate(members) for partition in member.assignment}


REBALANCE: Final = Scene(
    9,
    "rebalance",
    "A rebalance in its phases, and four assignors",
    (
        "When a member joins, all join again under the next generation, the leader among them assigns the partitions, "
        "and each receives its share. Eager assignors take everything away first; a cooperative one takes only what "
        "moves."
    ),
    "cooperative rebalancing (cooperative-sticky)",
    _play,
)
