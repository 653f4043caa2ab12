"""A crash at each step of a truncation, with and without the power: the table in docs/design/log.md (scenario 61)."""

from __future__ import annotations

import pytest

from semel.testing.virtual.crash import SimulatedCrash
from semel.testing.virtual.disk import VirtualDisk
from semel.testing.virtual.page_cache import Unsynced
from tests.logs import NOW_MS, append, batch, open_log
from tests.unit.log.recovery.test_recovery import state
from tests.unit.log.test_truncations import LARGE, SMALL, Follower, all_bytes, filled, replayed, whole_state

CRASHES = [None, Unsynced.LOST, Unsynced.KEPT, Unsynced.ANY]


@pytest.mark.parametrize("unsynced", CRASHES, ids=str)
@pytest.mark.parametrize("checkpoint", [False, True])
def test_a_crash_at_any_step_leaves_the_longer_log_or_the_shorter_one(
    checkpoint: bool, unsynced: Unsynced | None
) -> None:
    """An unclean election: what is cut was confirmed. After the crash the cut is made again, and others come."""
    step, is_dead = 0, True
    while is_dead:
        step += 1
        follower = filled(checkpoint=checkpoint, high_watermark=9)
        old = all_bytes(follower.log("orders"))
        is_dead = crashed(follower, step, unsynced, offset=6)
        log = follower.log("orders")
        found = all_bytes(log)
        assert found == old[: len(found)], f"step {step}: not what was there"
        assert log.log_end_offset >= 6, f"step {step}: records below the cut are lost"
        assert log.high_watermark <= 9
        assert whole_state(log) == replayed(found), f"step {step}"
        if not is_dead:
            assert log.log_end_offset == 6
        others_come(follower, step, unsynced)


def others_come(follower: Follower, step: int, unsynced: Unsynced | None) -> None:
    """The cut is made again, and the records of the new leader are synced and not confirmed."""
    log = follower.log("orders")
    log.on_durable = lambda _: None
    assert follower.truncate(6) == {}
    kept = all_bytes(log)
    leader = open_log(VirtualDisk(), config=SMALL)
    for part in kept:
        leader.append_copied(memoryview(part), now_ms=NOW_MS)
    leader.set_leader_epoch(5)
    for number in range(4):
        append(leader, batch(f"new {number}" * 10))
    while log.log_end_offset < leader.log_end_offset:
        log.append_copied(memoryview(leader.read_copy(log.log_end_offset, LARGE).records), now_ms=NOW_MS)
    follower.commit()
    assert log.durable_offset == leader.log_end_offset
    crash(follower, unsynced)
    log = follower.log("orders")
    assert all_bytes(log) == all_bytes(leader), f"step {step}: another history came back"
    assert log.high_watermark <= 6, f"step {step}: what the new leader has not confirmed counts as confirmed"
    assert whole_state(log) == state(leader), f"step {step}"


@pytest.mark.parametrize("unsynced", CRASHES, ids=str)
@pytest.mark.parametrize(("offset", "checkpoint"), [(20, False), (20, True), (8, True), (0, True)])
def test_a_crash_at_any_step_of_beginning_anew_leaves_a_part_of_the_old_log_or_none(
    checkpoint: bool, offset: int, unsynced: Unsynced | None
) -> None:
    step, is_dead = 0, True
    while is_dead:
        step += 1
        follower = filled(checkpoint=checkpoint, high_watermark=9)
        log = follower.log("orders")
        old = all_bytes(log)
        log.advance_log_start(2)
        is_dead = crashed(follower, step, unsynced, offset=offset, restart=True)
        assert follower.directory.unavailable == {}, f"step {step}"
        log = follower.log("orders")
        found = all_bytes(log)
        assert b"".join(found) in b"".join(old), f"step {step}: not what was there"
        if not is_dead:
            assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (offset, offset, offset)
        log.on_durable = lambda _: None
        assert follower.truncate(offset, restart=True) == {}
        assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (offset, offset, offset)
        leader = open_log(VirtualDisk(), config=SMALL, log_start_offset=offset)
        leader.set_leader_epoch(5)
        append(leader, batch("new"))
        log.append_copied(memoryview(leader.read_copy(offset, LARGE).records), now_ms=NOW_MS)
        follower.commit()
        crash(follower, unsynced)
        assert follower.directory.unavailable == {}
        log = follower.log("orders")
        assert all_bytes(log) == all_bytes(leader), f"step {step}: another history came back"
        assert (log.log_start_offset, log.high_watermark) == (offset, offset)


def crashed(follower: Follower, step: int, unsynced: Unsynced | None, *, offset: int, restart: bool = False) -> bool:
    """Truncate, and die in the n-th change of the disk. Returns whether there were so many."""
    follower.disk.crash_after(step)
    try:
        assert follower.truncate(offset, restart=restart) == {}
        is_dead = False
    except SimulatedCrash:
        is_dead = True
    follower.disk.repair()
    crash(follower, unsynced)
    return is_dead


def crash(follower: Follower, unsynced: Unsynced | None) -> None:
    follower.directory.kill()
    if unsynced is None:
        follower.disk.kill()
    else:
        follower.disk.crash(unsynced)
    follower.directory = follower.open()
    for log in follower.directory.logs.values():
        log.on_durable = lambda _: None
