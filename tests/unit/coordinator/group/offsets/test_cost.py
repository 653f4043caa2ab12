"""What a request, a sweep or the end of a topic costs does not depend on how many groups there are, or members.

Counted in calls and not in seconds, so that a busy machine changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from semel.coordinator.group.records import OffsetCommit, OffsetKey
from semel.types import ProducerIdentity
from tests.unit.coordinator.group.consumer.simulated_group import GROUP, Coordinator, members_of
from tests.unit.coordinator.group.counted_calls import calls
from tests.unit.coordinator.group.offsets.offset_log import MINUTE_MS, OffsetLog

PRODUCER = ProducerIdentity(1000, 0)


def log_with_groups(count: int) -> OffsetLog:
    log = OffsetLog()
    for number in range(count):
        log.commit(1, group_id=f"group-{number}", topic="clicks", now_ms=MINUTE_MS)
    log.commit(5, now_ms=0)
    log.commit_in(PRODUCER, 6, partition=1, now_ms=0)
    return log


def costs(log: OffsetLog) -> dict[str, int]:
    acts: dict[str, Callable[[], object]] = {
        "fetch": lambda: log.shard.fetch("payments", None, require_stable=True),
        "commit": lambda: log.commit(7, now_ms=0),
        "commit in a transaction": lambda: log.commit_in(PRODUCER, 8, now_ms=0),
        "marker": lambda: log.end(PRODUCER, committed=True),
        "sweep that finds one group": lambda: log.apply_all(log.shard.expire(log.settings.retention_ms)),
        "sweep that finds nothing": lambda: log.shard.expire(log.settings.retention_ms),
        "commit to a new group": lambda: log.commit(9, now_ms=2 * MINUTE_MS),
        "end of a topic": lambda: log.apply_all(log.shard.delete_topic("orders", None)),
        "deletion of a group": lambda: log.apply(log.shard.delete_group("group-0")),
    }
    return {name: calls(act) for name, act in acts.items()}


def test_no_cost_grows_with_the_number_of_groups() -> None:
    costs(log_with_groups(10))  # Compiles the codecs.
    few, many = costs(log_with_groups(10)), costs(log_with_groups(3000))

    assert many == few


def cost_of_a_sweep(*, members: int, offsets: int) -> int:
    """Over a consumer group with offsets of a topic that none of its members reads."""
    coordinator = Coordinator()
    for member in members_of(coordinator, members, topics=None, regex="ord.*"):
        member.beat()
    now_ms = coordinator.moment.wall_ms
    for partition in range(offsets):
        commit = OffsetCommit(OffsetKey(GROUP, "refunds", partition), 1, None, "", now_ms)
        coordinator.shard.replay(commit, offset=partition)
    coordinator.shard.offsets.expire(now_ms)
    return calls(lambda: coordinator.shard.offsets.expire(now_ms + 1))


def test_the_cost_of_an_offset_does_not_grow_with_the_members_of_its_group() -> None:
    few, many = (
        cost_of_a_sweep(members=members, offsets=300) - cost_of_a_sweep(members=members, offsets=100)
        for members in (1, 20)
    )

    assert many == few > 0
