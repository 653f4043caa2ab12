"""The laws of docs/design/groups.md for the classic protocol, under any sequence of requests, losses and restarts.

Members do what clients do and what they should not: they join and vanish, answer with old generations, come back under
an instance id, wait on two connections at once. After every step each law is checked that can be seen at any moment;
at the end the faults stop, and the group must come to rest.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from semel.coordinator.group.classic.group import ClassicGroup
from semel.coordinator.group.classic.member import ClassicMember
from semel.coordinator.group.classic.results import JoinResult, SyncResult
from semel.coordinator.group.classic.states import ClassicState
from semel.coordinator.group.records import GroupMetadata, decode
from semel.errors import ErrorCode
from tests.unit.coordinator.group.classic.bench import (
    REBALANCE_MS,
    SESSION_MS,
    Asked,
    Bench,
    offers,
)

INSTANCES = (None, None, "one", "two")
NOBODY = ClassicGroup("payments")
TOPICS = (("orders",), ("orders", "refunds"))


class ClassicGroupMachine(RuleBasedStateMachine):
    @initialize(size_max=st.sampled_from([3, 1000]))
    def begin(self, size_max: int) -> None:
        self.bench = Bench(size_max=size_max)
        self.known: list[tuple[str, str | None]] = []
        self.syncs: list[Asked] = []
        self.assigned: dict[int, dict[str, bytes]] = {}
        self.generation_assigned = 0
        self.heard_ms: dict[str, int] = {}

    # -- what members do

    @rule(instance_id=st.sampled_from(INSTANCES), version=st.sampled_from([3, 5, 9]), topics=st.sampled_from(TOPICS))
    def join_new(self, instance_id: str | None, version: int, topics: tuple[str, ...]) -> None:
        asked = self.bench.join(instance_id=instance_id, version=version, protocols=offers("range", topics=topics))
        self._learn(asked)

    @precondition(lambda self: self.known)
    @rule(data=st.data(), topics=st.sampled_from(TOPICS))
    def join_again(self, data: st.DataObject, topics: tuple[str, ...]) -> None:
        member_id, instance_id = data.draw(st.sampled_from(self.known))
        self._learn(self.bench.join(member_id, instance_id=instance_id, protocols=offers("range", topics=topics)))

    @precondition(lambda self: self.known)
    @rule(data=st.data(), behind=st.sampled_from([0, 0, 0, 1]))
    def sync(self, data: st.DataObject, behind: int) -> None:
        member_id, instance_id = data.draw(st.sampled_from(self.known))
        group = self._group()
        generation = (group.generation if group else 1) - behind
        number = len(self.syncs)
        assignments = {} if group is None else {one: f"{number} {one}".encode() for one in group.members}
        self.syncs.append(self.bench.sync(member_id, generation, assignments, instance_id=instance_id))

    @precondition(lambda self: self.known)
    @rule(data=st.data(), behind=st.sampled_from([0, 0, 0, 1]))
    def heartbeat(self, data: st.DataObject, behind: int) -> None:
        member_id, instance_id = data.draw(st.sampled_from(self.known))
        group = self._group()
        error = self.bench.heartbeat(member_id, (group.generation if group else 1) - behind, instance_id=instance_id)
        if error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            self.heard_ms[member_id] = self.bench.now_ms

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        self.bench.leave(*data.draw(st.lists(st.sampled_from(self.known), min_size=1, max_size=2)))

    @precondition(lambda self: self.known)
    @rule(data=st.data(), behind=st.sampled_from([0, 1]))
    def commit_law_4(self, data: st.DataObject, behind: int) -> None:
        member_id, instance_id = data.draw(st.sampled_from(self.known))
        group = self._group()
        generation = (group.generation if group else 1) - behind
        error = self.bench.commit(generation, member_id, instance_id)
        if error is ErrorCode.NONE:
            assert group is not None
            assert behind == 0
            assert member_id in group.members
            assert instance_id is None or group.static_ids[instance_id] == member_id

    # -- what well-behaved members do: the way to the states that chance alone would seldom reach

    @rule()
    def all_join(self) -> None:
        group = self._group()
        if group is None or not group.members:
            for instance_id in (None, "one"):
                self._learn(self.bench.join(instance_id=instance_id, version=3))
        else:
            for member in group.members.values():
                if member.joining is None:
                    self._learn(self.bench.join(member.member_id, instance_id=member.instance_id))
        self.bench.pass_ms(6000)

    @rule()
    def all_settle(self) -> None:
        self.bench.disk_is_full = False
        if not self._is(ClassicState.STABLE):
            if not self._is(ClassicState.COMPLETING_REBALANCE):
                self.all_join()
            if self._is(ClassicState.COMPLETING_REBALANCE):
                self.all_sync(leader_too=True)

    @precondition(lambda self: self._is(ClassicState.COMPLETING_REBALANCE))
    @rule(leader_too=st.booleans())
    def all_sync(self, leader_too: bool) -> None:
        group = self._group()
        assert group is not None
        followers = [member for member in group.members.values() if member.member_id != group.leader]
        for member in (*followers, group.members[group.leader or ""])[: None if leader_too else -1]:
            assignments = {one: f"{len(self.syncs)} {one}".encode() for one in group.members}
            self.syncs.append(
                self.bench.sync(member.member_id, group.generation, assignments, instance_id=member.instance_id)
            )

    @precondition(lambda self: bool((self._group() or NOBODY).static_ids))
    @rule(data=st.data())
    def static_member_returns(self, data: st.DataObject) -> None:
        group = self._group()
        assert group is not None
        self._learn(self.bench.join(instance_id=data.draw(st.sampled_from(sorted(group.static_ids)))))

    @precondition(lambda self: self._is(ClassicState.STABLE))
    @rule(rounds=st.sampled_from([1, 3, 8]))
    def all_but_one_are_heard(self, rounds: int) -> None:
        group = self._group()
        assert group is not None
        for _ in range(rounds):
            for member in list(group.members.values())[:-1]:
                self.bench.heartbeat(member.member_id, group.generation, instance_id=member.instance_id)
                self.heard_ms[member.member_id] = self.bench.now_ms
            self.time_passes(SESSION_MS - 1)

    # -- what happens to them

    @rule(duration_ms=st.sampled_from([1, 500, 500, 3000, 3000, SESSION_MS - 1, SESSION_MS, REBALANCE_MS]))
    def time_passes(self, duration_ms: int) -> None:
        before = self._group()
        self.bench.pass_ms(duration_ms)
        if before is not None and duration_ms <= SESSION_MS:
            # Law 5: whoever waits for us is alive.
            waiting = {
                member.member_id for member in before.members.values() if member.is_waiting and not member.is_new
            }
            assert waiting <= set((self._group() or NOBODY).members)
        if before is not None and before.state is ClassicState.STABLE and duration_ms < SESSION_MS:
            # Law 5, where nothing but a session can put a member out.
            group = self._group()
            for member_id in before.members:
                heard_ms = self.heard_ms.get(member_id)
                if heard_ms is not None and self.bench.now_ms - heard_ms < SESSION_MS and not before.awaiting_sync:
                    assert group is not None
                    assert member_id in group.members, "it was heard within its session and is out"

    @precondition(lambda self: bool(self.bench.entries))
    @rule()
    def coordinator_is_lost_law_7(self) -> None:
        self.bench.disk_is_full = False
        self.bench.restart()
        self.heard_ms.clear()
        assert self.bench.waiting == [], "law 6: somebody was not told"
        group, recorded = self._group(), self._recorded()
        if recorded is None:
            assert group is None
        else:
            assert group is not None
            assert group.record() == recorded

    @rule(full=st.sampled_from([True, False, False]))
    def disk(self, full: bool) -> None:
        self.bench.disk_is_full = full

    # -- what must hold

    @invariant()
    def law_1_an_assigned_generation_never_goes_back(self) -> None:
        recorded = self._recorded()
        if recorded is not None:
            assert recorded.generation >= self.generation_assigned
        for asked in self.syncs:
            if isinstance(asked.answer, SyncResult) and asked.answer.error is ErrorCode.NONE:
                assert recorded is not None
                assert recorded.generation >= asked.request.generation
        self.generation_assigned = 0 if recorded is None else recorded.generation

    @invariant()
    def law_2_one_assignment_for_each_member_and_all_from_one_sync(self) -> None:
        numbers: dict[int, set[bytes]] = {}
        for asked in self.syncs:
            if (
                isinstance(asked.answer, SyncResult)
                and asked.answer.error is ErrorCode.NONE
                and asked.answer.assignment
            ):
                numbers.setdefault(asked.request.generation, set()).add(asked.answer.assignment.split()[0])
        assert all(len(found) == 1 for found in numbers.values()), "two SyncGroups had a part in one generation"

    @invariant()
    def law_6_whoever_waits_is_kept(self) -> None:
        """And nobody else is: each waiter is in the group exactly once."""
        kept = list(self.bench.shard.waiters())
        assert len(kept) == len(self.bench.waiting)
        assert all(any(waiter == asked.waiter for waiter in kept) for asked in self.bench.waiting)

    @invariant()
    def the_group_is_whole(self) -> None:
        group = self._group()
        if group is None:
            return
        assert (not group.members) <= (group.state in (ClassicState.EMPTY, ClassicState.PREPARING_REBALANCE))
        assert (group.state is ClassicState.EMPTY) <= (not group.members)
        assert (group.leader in group.members) if group.members else (group.leader is None)
        assert group.awaiting_sync <= set(group.members)
        assert not group.pending_ids & set(group.members)
        if group.state is not ClassicState.COMPLETING_REBALANCE:
            assert all(member.syncing is None for member in group.members.values())
        if group.state is not ClassicState.PREPARING_REBALANCE:
            assert all(member.joining is None for member in group.members.values())
        if group.state in (ClassicState.STABLE, ClassicState.EMPTY) and group.is_recorded:
            assert group.record() == self._recorded(), "a restart would change what is there"

    def teardown(self) -> None:
        """The faults stop. Members that behave come to an assignment; members that are silent leave an empty group. And
        everybody was answered."""
        if not hasattr(self, "bench"):
            return
        self.bench.disk_is_full = False
        for _ in range(2 * REBALANCE_MS // 5000):
            for member in list((self._group() or NOBODY).members.values()):
                self._behave(member)
            self.bench.pass_ms(5000)
        group = self._group()
        assert group is None or not group.members or (group.state is ClassicState.STABLE and not group.awaiting_sync)
        self.bench.pass_ms(30 * 60_000)
        group = self._group()
        assert group is None or group.state is ClassicState.EMPTY
        assert self.bench.waiting == []

    def _behave(self, member: ClassicMember) -> None:
        group = self._group()
        if group is None or member.member_id not in group.members or group.members[member.member_id].is_waiting:
            return
        if group.state is ClassicState.PREPARING_REBALANCE:
            self.bench.join(member.member_id, instance_id=member.instance_id, protocols=member.protocols)
        elif member.member_id in group.awaiting_sync:
            self.bench.sync(member.member_id, group.generation, instance_id=member.instance_id)
        else:
            self.bench.heartbeat(member.member_id, group.generation, instance_id=member.instance_id)

    def _group(self) -> ClassicGroup | None:
        group = self.bench.shard.directory.groups.get("payments")
        assert group is None or isinstance(group, ClassicGroup)
        return group

    def _is(self, state: ClassicState) -> bool:
        group = self._group()
        return group is not None and group.state is state

    def _recorded(self) -> GroupMetadata | None:
        found = None
        for key, value in self.bench.entries:
            record = decode(key, value)
            if isinstance(record, GroupMetadata):
                found = record
        return found

    def _learn(self, asked: Asked) -> None:
        request = asked.request
        answered = asked.answer
        if isinstance(answered, JoinResult) and answered.member_id:
            self.known.append((answered.member_id, request.instance_id))
        elif answered is None and not request.member_id:
            name = request.client_id if request.instance_id is None else request.instance_id
            self.known.append((f"{name}-{request.uuid}", request.instance_id))
        del self.known[:-6]


TestClassicGroups = ClassicGroupMachine.TestCase
TestClassicGroups.settings = settings(max_examples=100, stateful_step_count=40, suppress_health_check=list(HealthCheck))
