"""Whatever is written, ended, cut into segments and compacted, in any order: nobody can tell, but for what may go.

What must not change is in ``checks``: the table that a reader makes of the committed records, open transactions, the
last stable offset, and that every producer is recognised, also after a start, and from the batches alone.
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from semel.wire.records import Codec
from tests.unit.log.compaction.bench import Bench, latest
from tests.unit.log.compaction.checks import remember

# Few keys, so that records replace each other; two are those of control records.
KEYS = ["a", "b", "c", "\0\0\0\0", "\0\0\0\1", None]
RECORDS = st.lists(
    st.tuples(st.sampled_from(KEYS), st.sampled_from(["1", "2", "3", "x" * 80, None])), min_size=1, max_size=3
)

PRODUCERS = st.sampled_from([None, 1, 2])
TRANSACTIONAL_PRODUCERS = st.sampled_from([3, 4, 5])

# How often each is done, out of thirty-two, and with what.
ACTIONS: list[tuple[int, str, tuple[st.SearchStrategy[Any], ...]]] = [
    (7, "put", (PRODUCERS, RECORDS, st.sampled_from(Codec))),
    (8, "transactional", (TRANSACTIONAL_PRODUCERS, RECORDS)),
    (7, "end", (TRANSACTIONAL_PRODUCERS, st.booleans())),
    (3, "roll", ()),
    (3, "clean", (st.sampled_from([1, 2, 100]),)),
    (1, "wait", (st.sampled_from([1, 500, 1000, 5000]),)),
    (1, "restart", ()),
    (1, "expire", ()),
    (1, "delete", (st.integers(0, 100),)),
]
ACTION = st.sampled_from([choice for choice in ACTIONS for _ in range(choice[0])]).flatmap(
    lambda choice: st.tuples(st.just(choice[1]), *choice[2])
)


class Story:
    """A log and what its producers are about."""

    def __init__(self, segment_bytes: int, delete_retention_ms: int, transactions_v2: bool) -> None:
        self.bench = Bench(settings={"segment_bytes": segment_bytes, "delete_retention_ms": delete_retention_ms})
        self.cleaner = self.bench.cleaner()
        self.epochs = dict.fromkeys([3, 4, 5], 0)
        self.open: set[int] = set()
        self.transactions_v2 = transactions_v2
        self.cleanings = 0

    def put(self, producer: int | None, records: Any, codec: Codec) -> None:
        self.bench.put(*records, producer=producer, codec=codec)

    def transactional(self, producer: int, records: Any) -> None:
        self.bench.put(*records, producer=producer, epoch=self.epochs[producer], transactional=True)
        self.open.add(producer)

    def end(self, producer: int, committed: bool) -> None:
        if producer in self.open:
            self.open.remove(producer)
            self.epochs[producer] += self.transactions_v2
            self.bench.end(producer, committed=committed, epoch=self.epochs[producer])

    def roll(self) -> None:
        self.bench.roll()

    def wait(self, ms: int) -> None:
        self.bench.now_ms += ms

    def restart(self) -> None:
        self.bench.disk.kill()
        self.bench.open()
        self.cleaner = self.bench.cleaner()

    def expire(self) -> None:
        for producer in self.bench.log.producers.expire(self.bench.now_ms + 86_400_000 - 3000):
            self.bench.sent.pop(producer, None)

    def delete(self, percent: int) -> None:
        log = self.bench.log
        self.bench.delete_before(log.log_start_offset + (log.high_watermark - log.log_start_offset) * percent // 100)

    def clean(self, keys_max: int) -> None:
        self.cleaner._map_entries_max = keys_max
        before = remember(self.bench)
        self.bench.clean(self.cleaner)
        before.check(self.bench)
        self.cleanings += 1


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    segment_bytes=st.sampled_from([150, 600, 5000, 5000]),
    delete_retention_ms=st.sampled_from([0, 0, 1000]),
    transactions_v2=st.booleans(),
    actions=st.lists(ACTION, min_size=20, max_size=60),
)
def test_compaction_is_faithful_whatever_came_before(
    segment_bytes: int, delete_retention_ms: int, transactions_v2: bool, actions: list[tuple[Any, ...]]
) -> None:
    story = Story(segment_bytes, delete_retention_ms, transactions_v2)
    for name, *arguments in actions:
        getattr(story, name)(*arguments)
    story.clean(100)
    story.clean(100)
    # With everything decided, every key has one record left, or none.
    for producer in list(story.open):
        story.end(producer, True)
    while story.cleaner.cleanable(story.bench.log, story.bench.now_ms) is not None or not story.cleanings:
        story.clean(100)
    story.clean(100)
    keys = [read.key for read in story.bench.records()]
    assert len(keys) == len(set(keys))
    assert set(latest(story.bench.records())) <= set(keys)
