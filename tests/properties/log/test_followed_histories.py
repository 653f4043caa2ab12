"""A follower's log through any history: copies, cuts, restarts, checkpoints, deaths of the process and of the machine.

The law after every death: the log is the beginning of what it held, and holds at least what was synced; nothing counts
as confirmed that was not; and all that is derived is what a replay of its batches gives.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.testing.virtual.disk import VirtualDisk
from semel.testing.virtual.page_cache import Unsynced
from semel.wire.records import iterate_headers, patch_offset_and_epoch
from tests.logs import NOW_MS, batch, marker, open_log, produced
from tests.unit.log.recovery.test_recovery import state
from tests.unit.log.test_truncations import SMALL, Follower, all_bytes

KINDS = ("plain", "large", "idempotent", "transactional", "commit", "abort")
STEPS = st.one_of(
    st.tuples(st.just("copy"), st.lists(st.sampled_from(KINDS), min_size=1, max_size=6)),
    st.tuples(st.just("commit"), st.none()),
    st.tuples(st.just("checkpoint"), st.none()),
    st.tuples(st.just("confirm"), st.floats(0, 1)),
    st.tuples(st.just("truncate"), st.floats(0, 1)),
    st.tuples(st.just("restart"), st.integers(0, 40)),
    st.tuples(st.just("die"), st.sampled_from((None, Unsynced.LOST, Unsynced.ANY))),
)


class History:
    """A follower and what is known of it: its batches, how many are synced, and how far they are confirmed."""

    def __init__(self) -> None:
        self.follower = Follower()
        self.log = self.follower.create("orders")
        self.start = 0
        self.batches: list[bytes] = []
        self.synced = 0
        self.confirmed = 0
        self.epoch = 1
        self.copied = 0

    def ends(self) -> list[int]:
        """The offsets between the batches."""
        return [self.start, *(next(iterate_headers(one))[1].next_offset for one in self.batches)]

    def copy(self, kinds: list[str]) -> None:
        made: list[bytes] = []
        offset = self.ends()[-1]
        for kind in kinds:
            self.copied += 1
            if kind in ("commit", "abort"):
                records = marker(committed=kind == "commit", producer=2)
            elif kind == "plain":
                records = batch(f"{self.copied}")
            elif kind == "large":
                records = batch(f"{self.copied}" * 100)
            else:
                records = produced(self.copied, f"{self.copied}", producer=2, transactional=kind == "transactional")
            patch_offset_and_epoch(records, 0, offset, self.epoch)
            made.append(bytes(records))
            offset += 1
        self.log.append_copied(memoryview(b"".join(made)), now_ms=NOW_MS)
        self.batches += made

    def commit(self) -> None:
        self.follower.work()
        self.synced = len(self.batches)
        assert self.log.durable_offset == self.log.log_end_offset

    def checkpoint(self) -> None:
        self.follower.directory.checkpoint()
        self.commit()

    def confirm(self, share: float) -> None:
        offset = self.ends()[int(share * self.synced)]
        self.log.followed(high_watermark=offset, log_start_offset=0)
        self.confirmed = max(self.confirmed, offset)

    def truncate(self, share: float) -> None:
        kept = int(share * len(self.batches))
        offset = self.ends()[kept]
        assert self.follower.truncate(offset) == {}
        self.batches = self.batches[:kept]
        self.synced = kept  # What is left was synced before.
        self.confirmed = min(self.confirmed, offset)
        self.epoch += 1

    def restart(self, offset: int) -> None:
        assert self.follower.truncate(offset, restart=True) == {}
        self.start, self.batches, self.synced, self.confirmed = offset, [], 0, offset
        self.epoch += 1

    def die(self, unsynced: Unsynced | None) -> None:
        self.follower.turn()  # The loop is not a new one: nothing of the dead process may be left in it.
        self.follower.directory.kill()
        self.follower.disk.kill() if unsynced is None else self.follower.disk.crash(unsynced)
        self.follower.directory = self.follower.open()
        assert self.follower.directory.unavailable == {}
        self.log = self.follower.log("orders")
        self.log.on_durable = lambda _: None
        found = all_bytes(self.log)
        assert found == self.batches[: len(found)]
        assert len(found) >= self.synced
        self.batches, self.synced = found, len(found)
        assert self.log.log_start_offset == self.start
        assert self.log.high_watermark <= self.confirmed
        self.confirmed = max(self.log.high_watermark, self.start)
        assert not self.log.has_lost_acknowledged_records

    def check(self) -> None:
        assert (self.log.log_end_offset, all_bytes(self.log)) == (self.ends()[-1], self.batches)
        replayed = open_log(VirtualDisk(), config=SMALL, log_start_offset=self.start)
        replayed.on_durable = lambda _: None
        for one in self.batches:
            replayed.append_copied(memoryview(one), now_ms=NOW_MS)
        replayed.advance_high_watermark(self.log.high_watermark)
        assert state(self.log) == state(replayed)


@given(steps=st.lists(STEPS, max_size=25))
def test_a_follower_s_log_is_the_replay_of_its_batches_after_any_history(steps: list[tuple[str, object]]) -> None:
    history = History()
    for step, how in steps:
        act = getattr(history, step)
        act() if how is None and step != "die" else act(how)
        history.check()
    history.die(Unsynced.LOST)
    history.check()
