"""The claim on a group: what another commit looks like, and every interleaving of two drivers in a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from semel.client.values import OffsetAndMetadata
from semel.spark.claim import check_unchanged, fence_of
from semel.spark.decision import Note, SourcePartition, by_group
from semel.spark.errors import PipelineError, Superseded
from semel.types import TopicPartition

P0 = SourcePartition("jobs", TopicPartition("orders", 0))
P1 = SourcePartition("jobs", TopicPartition("orders", 1))


def at(offset: int, owner: str | None = "ours") -> OffsetAndMetadata:
    return OffsetAndMetadata(offset, str(Note("query", 3, owner=owner)))


def test_a_fence_is_named_after_its_group() -> None:
    assert fence_of("jobs") == "jobs.semel-fence"


def test_offsets_are_committed_group_by_group() -> None:
    other = SourcePartition("alone", TopicPartition("orders", 0))
    assert by_group({P1: at(1), other: at(2), P0: at(3)}) == {
        "alone": {TopicPartition("orders", 0): at(2)},
        "jobs": {TopicPartition("orders", 0): at(3), TopicPartition("orders", 1): at(1)},
    }


def test_what_this_pipeline_committed_is_unchanged_also_if_a_broker_adds_the_leader_epoch() -> None:
    found = OffsetAndMetadata(5, str(Note("query", 3, owner="ours")), leader_epoch=7)
    check_unchanged({P0: at(5)}, {P0: found}, "ours")
    check_unchanged({}, {}, "ours")


def test_offsets_that_expired_while_nothing_came_in_are_committed_again() -> None:
    check_unchanged({P0: at(5)}, {}, "ours")


@pytest.mark.parametrize(
    ("expected", "found", "kind", "said"),
    [
        pytest.param({P0: at(5)}, {P0: at(9, "theirs")}, Superseded, "id 'theirs' has taken over", id="a pipeline"),
        pytest.param({P0: at(5)}, {P0: at(5, "theirs")}, Superseded, "id 'theirs' has taken over", id="a claim"),
        pytest.param({P0: at(5)}, {P0: OffsetAndMetadata(7)}, PipelineError, "at 5 and is at 7 now", id="a consumer"),
        pytest.param({P0: at(5)}, {P0: at(9, None)}, PipelineError, "does not fence its group", id="an older version"),
        pytest.param({}, {P0: OffsetAndMetadata(7)}, PipelineError, "was at no offset", id="a partition that was new"),
    ],
)
def test_a_commit_of_another_is_named(
    expected: dict[SourcePartition, OffsetAndMetadata],
    found: dict[SourcePartition, OffsetAndMetadata],
    kind: type[Exception],
    said: str,
) -> None:
    with pytest.raises(kind, match=said) as raised:
        check_unchanged(expected, found, "ours")
    assert type(raised.value) is kind


def test_offsets_of_an_older_version_are_this_pipeline_s_own_until_it_commits() -> None:
    check_unchanged({P0: at(5, None)}, {P0: at(5, None)}, "ours")


# A model: a fence and a group that answer one request at a time, and drivers whose requests come in any order.


@dataclass
class Cluster:
    offset: int = 0
    pending: list[str] = field(default_factory=list)
    fence: str = ""
    written: list[tuple[str, int]] = field(default_factory=list)


def driver(name: str, cluster: Cluster, order: Sequence[str]) -> Iterator[bool]:
    """One start and two batches of one offset each, in steps. Yields whether the next step can be taken now."""
    fenced = False
    start, at = order[:2], 0
    for step in start:
        if step == "claim":
            cluster.fence = name
        else:
            while cluster.pending:  # Stable: it waits until no transaction is open.
                yield False
            at = cluster.offset
        yield True
    for _ in range(2):
        for step in order[2:]:
            if step == "pend":
                cluster.pending.append(name)
            elif step == "confirm":
                fenced = fenced or cluster.fence != name
            else:
                cluster.pending.remove(name)
                if fenced:
                    return
                cluster.written.append((name, at))
                at = cluster.offset = at + 1
            yield True


def outcomes(order: Sequence[str]) -> Iterator[list[tuple[str, int]]]:
    """What is written, for every order in which the steps of two drivers can come."""
    choices: list[list[str]] = [[]]
    while choices:
        made = choices.pop()
        cluster = Cluster()
        drivers = {name: driver(name, cluster, order) for name in "AB"}
        for name in made:
            if not next(drivers[name], True):
                break
        else:
            left = [name for name in "AB" if _goes_on(name, made, order)]
            choices += [[*made, name] for name in left]
            if not left:
                yield cluster.written


def _goes_on(name: str, made: Sequence[str], order: Sequence[str]) -> bool:
    cluster = Cluster()
    drivers = {one: driver(one, cluster, order) for one in "AB"}
    for one in made:
        next(drivers[one], None)
    return next(drivers[name], None) is True


RIGHT = ("claim", "read", "pend", "confirm", "end")


def doubled(order: Sequence[str]) -> int:
    """How many of the interleavings write an offset twice."""
    return sum(len({offset for _, offset in written}) < len(written) for written in outcomes(order))


def test_in_no_interleaving_do_two_drivers_write_the_same_offset() -> None:
    assert doubled(RIGHT) == 0


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(("read", "claim", "pend", "confirm", "end"), id="offsets are read before the claim"),
        pytest.param(("claim", "read", "confirm", "pend", "end"), id="the fence is asked before offsets are pending"),
        pytest.param(("claim", "read", "pend", "end"), id="the fence is not asked"),
    ],
)
def test_another_order_of_the_steps_writes_some_twice(order: Sequence[str]) -> None:
    assert doubled(order) > 0
