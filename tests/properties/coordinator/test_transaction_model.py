"""The shard against a small model: any request, in any order, from anybody, with failed appends and crashes."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from semel.coordinator.transaction.listing import ListFilters
from semel.coordinator.transaction.states import ENDED, LEGAL_SOURCES, TxnState
from semel.errors import ErrorCode
from semel.types import ProducerIdentity, TopicPartition
from tests.properties.coordinator.transaction_model import UNKNOWN, Answer, Identity, Known
from tests.unit.coordinator.transaction.bench import Bench

IDS = st.sampled_from(("a", "b"))
PARTITIONS = st.sets(st.sampled_from([TopicPartition("t", number) for number in range(3)]), max_size=2)
VERSIONS = st.sampled_from((0, 2))
STRANGER = ProducerIdentity(7, 3)
TIMEOUTS_MS = st.sampled_from((1_000, 60_000))


class Shard(RuleBasedStateMachine):
    """``identities`` are all that were ever given out: the good ones, the late ones and the zombies."""

    identities = Bundle("identities")

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench()
        self.known: dict[str, Known] = {}
        self.granted: set[Identity] = set()

    # -- requests: the shard and the model are asked the same, and must answer the same

    @initialize(target=identities)
    def stranger(self) -> ProducerIdentity:
        return STRANGER

    @rule(target=identities, name=IDS, timeout_ms=TIMEOUTS_MS, near_the_end=st.booleans())
    def starts(self, name: str, timeout_ms: int, near_the_end: bool) -> ProducerIdentity:
        """A new instance, perhaps of a producer that has been through many epochs."""
        answer = self._init(name, None, timeout_ms)
        if answer[1] is None:
            return STRANGER
        assert answer[1] not in self.granted, "an identity is given out once"
        self.granted.add(answer[1])
        if near_the_end and answer[1][1] < 30_000:
            self._age(name)
        return ProducerIdentity(*self.known[name].good)

    @rule(target=identities, name=IDS, identity=identities, timeout_ms=TIMEOUTS_MS)
    def resumes(self, name: str, identity: ProducerIdentity, timeout_ms: int) -> ProducerIdentity:
        _, granted = self._init(name, identity, timeout_ms)
        return identity if granted is None else ProducerIdentity(*granted)

    @rule(name=IDS, identity=identities, partitions=PARTITIONS, version=VERSIONS)
    def adds(self, name: str, identity: ProducerIdentity, partitions: set[TopicPartition], version: int) -> None:
        self._add(name, identity, partitions, version)

    @rule(name=IDS, partitions=PARTITIONS, version=VERSIONS)
    def the_owner_adds(self, name: str, partitions: set[TopicPartition], version: int) -> None:
        self._add(name, self._owner(name), partitions, version)

    @rule(target=identities, name=IDS, identity=identities, committed=st.booleans(), version=VERSIONS)
    def ends(self, name: str, identity: ProducerIdentity, committed: bool, version: int) -> ProducerIdentity:
        return self._end(name, identity, committed, version)

    @rule(target=identities, name=IDS, committed=st.booleans(), version=VERSIONS)
    def the_owner_ends(self, name: str, committed: bool, version: int) -> ProducerIdentity:
        return self._end(name, self._owner(name), committed, version)

    @rule(name=IDS, identity=identities, committed=st.booleans())
    def is_decided_upon_and_the_append_fails(self, name: str, identity: ProducerIdentity, committed: bool) -> None:
        """Scenario 24."""
        self.bench.decide_init(transactional_id=name)
        self.bench.decide_end(identity, committed=committed, transactional_id=name)
        self.bench.decide_add(identity, TopicPartition("t", 0), transactional_id=name)

    # -- the coordinator

    @rule()
    def markers_are_written(self) -> None:
        for marker in self.bench.markers:
            known = self.known[marker.transactional_id]
            assert (marker.producer_id, marker.producer_epoch) == known.marker_identity()
            assert (marker.committed, set(marker.partitions)) == (known.committed, known.partitions)
            known.complete(self.bench.now_ms)
        self.bench.write_markers()

    @rule(later_ms=st.sampled_from((0, 1, 1_001, 60_001)))
    def time_passes(self, later_ms: int) -> None:
        now_ms = self.bench.now_ms = self.bench.now_ms + later_ms
        decisions = list(self.bench.shard.time_out(self.bench.moment))
        due = [name for name, known in self.known.items() if known.times_out(now_ms)]
        assert sorted(decision.response for decision in decisions) == sorted(due)
        for decision in decisions:
            name = self.bench.run(decision)
            (prepared,) = decision.records
            self.known[name].time_out(getattr(prepared, "next_producer_id", None) or 0, now_ms)

    @rule()
    def a_week_passes(self) -> None:
        now_ms = self.bench.now_ms = self.bench.now_ms + 7 * 24 * 3600 * 1000
        expired = [self.bench.run(decision) for decision in self.bench.shard.expire(now_ms, examined_max=2)]
        for name in expired:
            assert self.known.pop(name).expires(now_ms, 7 * 24 * 3600 * 1000)
        assert len(self.bench.shard) == len(self.known)

    @rule()
    def it_crashes(self) -> None:
        """What another coordinator loads is what was here, and it owes the same markers."""
        live = {name: self.bench.shard.get(name) for name in self.known}
        owed = {(marker.transactional_id, marker.partitions) for marker in self.bench.markers}
        self.bench.crash()
        assert {name: self.bench.shard.get(name) for name in self.known} == live
        assert {(marker.transactional_id, marker.partitions) for marker in self.bench.markers} == owed

    # -- what is always so

    @invariant()
    def it_is_as_the_model_says(self) -> None:
        assert len(self.bench.shard) == len(self.known)
        for name, known in self.known.items():
            shown = self.bench.shard.describe(name)
            assert (shown.state in ENDED and known.committed is None) is False
            assert shown.partitions == tuple(sorted(known.partitions))
            if known.deciding:
                assert shown.state is (TxnState.PREPARE_COMMIT if known.committed else TxnState.PREPARE_ABORT)
            elif known.opened_ms is not None:
                assert (shown.state, shown.started_ms) == (TxnState.ONGOING, known.opened_ms)
            else:
                assert shown.state in (TxnState.EMPTY, TxnState.COMPLETE_COMMIT, TxnState.COMPLETE_ABORT)
                assert (shown.producer_id, shown.producer_epoch) == known.good

    @invariant()
    def what_is_open_is_found_without_looking_at_the_rest(self) -> None:
        listed = self.bench.shard.list(ListFilters(duration_ms=-1), now_ms=self.bench.now_ms).transactions
        names = sorted(transaction.transactional_id for transaction in listed)
        assert names == sorted(transaction.transactional_id for transaction in self.bench.shard.open_transactions())
        assert names == sorted(name for name, known in self.known.items() if known.opened_ms is not None)

    # -- inside

    def _init(self, name: str, identity: ProducerIdentity | None, timeout_ms: int) -> Answer:
        decision = self.bench.decide_init(identity, transactional_id=name, timeout_ms=timeout_ms)
        known = self.known.get(name)
        if known is None:
            answer: Answer = (ErrorCode.NONE, (self._last_producer_id(), 0))
            self.known[name] = Known((self._last_producer_id(), 0), timeout_ms, used_ms=self.bench.now_ms)
        else:
            answer = known.init(identity, self._last_producer_id(), timeout_ms, self.bench.now_ms)
        before = self.bench.shard.get(name)
        for record in decision.records:
            assert before is None or before.state in LEGAL_SOURCES[record.state]  # type: ignore[union-attr]
        result = self.bench.run(decision)
        told = None if result.producer_id is None else (result.producer_id, result.producer_epoch)
        assert (result.error, told) == answer
        return answer

    def _add(self, name: str, identity: ProducerIdentity, partitions: set[TopicPartition], version: int) -> None:
        decision = self.bench.decide_add(identity, *partitions, version=version, transactional_id=name)
        known = self.known.get(name)
        answer = UNKNOWN if known is None else known.add(identity, partitions, self.bench.now_ms)
        assert self.bench.run(decision).error is answer[0]

    def _end(self, name: str, identity: ProducerIdentity, committed: bool, version: int) -> ProducerIdentity:
        """What the producer goes on with."""
        decision = self.bench.decide_end(identity, committed=committed, version=version, transactional_id=name)
        known = self.known.get(name)
        answer: Answer = UNKNOWN
        if known is not None and version == 2:
            answer = known.end_v2(identity, committed, self._last_producer_id(), self.bench.now_ms)
        elif known is not None:
            answer = known.end_v1(identity, committed, self.bench.now_ms)
        result = self.bench.run(decision)
        told = None if result.producer_id is None else (result.producer_id, result.producer_epoch)
        assert (result.error, told) == answer
        return identity if answer[1] is None else ProducerIdentity(*answer[1])

    def _owner(self, name: str) -> ProducerIdentity:
        return ProducerIdentity(*self.known[name].good) if name in self.known else STRANGER

    def _last_producer_id(self) -> int:
        """The one that was last given out, if the shard asked for one."""
        return self.bench.last_producer_id

    def _age(self, name: str) -> None:
        """Thousands of transactions pass."""
        self.bench.at_epoch(32_764, transactional_id=name)
        known = self.known[name]
        known.good, known.late = (known.good[0], 32_764), None


TestShard = Shard.TestCase
TestShard.settings = settings(max_examples=150, stateful_step_count=40)
