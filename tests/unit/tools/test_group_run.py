"""When a group counts as stuck: by what stands still, however long the rest takes."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tools.group_run import _catch_up

STUCK_S = 0.2


class Group:
    """Each look moves every partition on by its pace; the topic ends at ``end``."""

    def __init__(self, *pace: int, end: int = 20, ready_at: int = 0) -> None:
        self.plan = SimpleNamespace(group="readers")
        self.watch = SimpleNamespace(offsets=[0] * len(pace))
        self.members, self.gone = [SimpleNamespace(role=SimpleNamespace(name="one"), reports=Any)], []  # type: ignore[var-annotated]
        self.members[0].reports = SimpleNamespace(assigned={0}, errors=[])
        self._pace, self._end, self._ready_at, self._looks = pace, end, ready_at, 0

    def goals(self) -> list[int]:
        return [self._end] * len(self._pace)

    def unread(self, ends: Sequence[int]) -> dict[int, int]:
        return {number: at for number, at in enumerate(self.watch.offsets) if at < ends[number]}

    def stands_still(self, partition: int, offset: int) -> bool:
        return bool(self.watch.offsets[partition] == offset)

    def is_shared(self) -> bool:
        return self._looks >= self._ready_at

    def tend(self) -> None:
        self._looks += 1
        self.watch.offsets = [at + pace for at, pace in zip(self.watch.offsets, self._pace, strict=True)]

    def described(self) -> str:
        return "described"

    def printed(self) -> str:
        return "printed"


def catch_up(*groups: Group) -> float:
    return _catch_up(groups, "a fault", STUCK_S)  # type: ignore[arg-type]


def test_a_group_that_gets_on_is_not_stuck_however_long_it_takes() -> None:
    assert catch_up(Group(1, 2)) > STUCK_S


def test_one_partition_that_stands_still_is_a_group_that_is_stuck() -> None:
    with pytest.raises(TimeoutError, match=r"after a fault: readers has not read partitions \[.*1\]"):
        catch_up(Group(1, 2), Group(1, 0, end=10_000))


def test_a_member_that_never_gets_a_partition_is_a_group_that_is_stuck() -> None:
    with pytest.raises(TimeoutError, match="after a fault"):
        catch_up(Group(20, 20, ready_at=10_000))
    assert catch_up(Group(20, 20, ready_at=2)) >= 0
