"""What a group is after its coordinator was lost (law 7), and what its log and its offsets say."""

from __future__ import annotations

import pytest

from semel.coordinator.group.classic.group import ClassicGroup
from semel.coordinator.group.kinds import GroupKind
from semel.coordinator.group.records import GroupMetadata, Member, decode
from semel.errors import ErrorCode
from semel.types import TopicPartition
from tests.unit.coordinator.group.classic.bench import SESSION_MS, Bench, joined, offers, synced


@pytest.fixture
def bench() -> Bench:
    return Bench()


class TestAfterARestart:
    def test_a_stable_group_is_stable_and_its_members_carry_on(self, bench: Bench) -> None:
        first, second = bench.form(2)
        bench.restart()
        assert bench.state == "Stable"
        assert bench.heartbeat(first, 1) is ErrorCode.NONE
        assert synced(bench.sync(second, 1)).assignment == second.encode()
        assert bench.commit(1, first) is ErrorCode.NONE

    def test_sessions_begin_anew(self, bench: Bench) -> None:
        first, _ = bench.form(2)
        bench.pass_ms(SESSION_MS - 1)
        bench.restart()
        bench.pass_ms(SESSION_MS - 1)
        assert bench.heartbeat(first, 1) is ErrorCode.NONE
        bench.pass_ms(1)
        assert bench.state == "PreparingRebalance", "the other one was not heard"

    def test_a_rebalance_that_had_begun_never_was(self, bench: Bench) -> None:
        first, second = bench.form(2)
        waits = bench.join(first)
        bench.restart()
        assert waits.answer is ErrorCode.NOT_COORDINATOR
        assert (bench.state, bench.group.generation) == ("Stable", 1)
        assert bench.heartbeat(second, 1) is ErrorCode.NONE

    def test_a_generation_that_was_never_assigned_is_refused(self, bench: Bench) -> None:
        (member_id,) = bench.form(1)
        assert joined(bench.join(member_id)).generation == 2
        bench.restart()
        assert bench.sync(member_id, 2).error is ErrorCode.ILLEGAL_GENERATION
        assert joined(bench.join(member_id)).generation == 2

    def test_a_new_group_that_was_never_assigned_is_not_there(self, bench: Bench) -> None:
        join = bench.join_v3()
        bench.pass_ms(3000)
        bench.restart()
        assert bench.state == "Dead"
        assert bench.sync(joined(join).member_id, 1).error is ErrorCode.UNKNOWN_MEMBER_ID

    def test_the_generation_of_an_empty_group_is_not_forgotten(self, bench: Bench) -> None:
        (member_id,) = bench.form(1)
        bench.leave(member_id)
        bench.restart()
        join = bench.join_v3()
        bench.pass_ms(3000)
        assert joined(join).generation == 3


class TestTheLog:
    def test_has_one_record_for_each_completed_rebalance(self, bench: Bench) -> None:
        first, second = bench.form(2)
        bench.join(first)
        bench.join(second)
        assert len(bench.entries) == 1
        bench.settle([first, second])
        bench.leave(first, second)
        assert len(bench.entries) == 3

    def test_has_all_that_a_coordinator_must_know(self, bench: Bench) -> None:
        (member_id,) = bench.form(1)
        member = Member(
            member_id, None, "client", "/10.0.0.1", 60_000, SESSION_MS, offers("range")[0].metadata, member_id.encode()
        )
        assert decode(*bench.entries[-1]) == GroupMetadata(
            "payments", "consumer", 1, "range", member_id, bench.now_ms, (member,)
        )

    def test_of_a_member_without_a_rebalance_timeout_means_its_session_timeout(self) -> None:
        member = Member("m", None, "c", "/h", None, 7000, b"", b"")
        group = ClassicGroup.of_record(GroupMetadata("g", "consumer", 1, "range", "m", 0, (member,)))
        assert group.members["m"].rebalance_timeout_ms == 7000


class TestOffsets:
    def test_are_committed_by_members_of_the_generation_only_law_4(self, bench: Bench) -> None:
        first, _ = bench.form(2)
        assert bench.commit(1, first) is ErrorCode.NONE
        assert bench.commit(0, first) is ErrorCode.ILLEGAL_GENERATION
        assert bench.commit(1, "stranger") is ErrorCode.UNKNOWN_MEMBER_ID
        assert bench.commit(None) is ErrorCode.UNKNOWN_MEMBER_ID

    def test_are_committed_by_members_until_they_join_again(self, bench: Bench) -> None:
        first, second = bench.form(2)
        bench.join(first)
        assert bench.commit(1, second) is ErrorCode.NONE
        bench.join(second)
        assert bench.commit(1, second) is ErrorCode.ILLEGAL_GENERATION

    def test_are_not_committed_in_a_generation_that_has_no_assignment_yet(self, bench: Bench) -> None:
        join = bench.join_v3()
        bench.pass_ms(3000)
        assert bench.commit(1, joined(join).member_id) is ErrorCode.REBALANCE_IN_PROGRESS

    def test_are_deleted_of_topics_that_nobody_reads_only(self, bench: Bench) -> None:
        (member_id,) = bench.form(1)
        bench.commit(1, member_id)
        partitions = [TopicPartition("orders", 0), TopicPartition("refunds", 0)]
        result = bench.shard.offsets.delete_offsets("payments", partitions).response
        assert result.errors == (ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE)

    def test_expire_while_the_group_is_stable_if_nobody_reads_the_topic(self, bench: Bench) -> None:
        """The group has moved to other topics, and does not come back for what it left."""
        (member_id,) = bench.form(1)
        bench.commit(1, member_id)
        rejoin = bench.join(member_id, protocols=offers("range", topics=["refunds"]))
        bench.settle([joined(rejoin).member_id])
        at_ms = bench.now_ms + bench.retention_ms
        assert bench.shard.offsets.expire(at_ms - 1) == []
        (decision,) = bench.shard.offsets.expire(at_ms)
        assert decision.response.offsets == 1

    def test_that_are_read_do_not_expire(self, bench: Bench) -> None:
        (member_id,) = bench.form(1)
        bench.commit(1, member_id)
        assert bench.shard.offsets.expire(bench.now_ms + 10 * bench.retention_ms) == []

    def test_go_with_the_group_when_it_has_been_empty_for_long_enough(self, bench: Bench) -> None:
        (member_id,) = bench.form(1)
        bench.commit(1, member_id)
        bench.pass_ms(100)
        bench.leave(member_id)
        at_ms = bench.now_ms + bench.retention_ms
        assert bench.shard.offsets.expire(at_ms - 1) == []
        (decision,) = bench.shard.offsets.expire(at_ms)
        assert (decision.response.offsets, decision.response.groups) == (1, 1)


class TestListingAndDescribing:
    def test_lists_groups_of_all_states_and_those_that_only_have_offsets(self, bench: Bench) -> None:
        bench.form(1)
        bench.group_id = "simple"
        bench.commit(None)
        listed = [(group.group_id, group.protocol_type, group.state_name) for group in bench.shard.list_groups()]
        assert listed == [("payments", "consumer", "Stable"), ("simple", "", "Empty")]

    @pytest.mark.parametrize(
        ("states", "types", "found"),
        [
            ({"stable"}, set(), ["payments"]),
            ({"empty"}, {"classic"}, ["simple"]),
            (set(), {"consumer"}, []),
            ({"dead"}, set(), []),
            (set(), {"classic", "consumer"}, ["payments", "simple"]),
        ],
    )
    def test_lists_by_state_and_type(self, bench: Bench, states: set[str], types: set[str], found: list[str]) -> None:
        bench.form(1)
        bench.group_id = "simple"
        bench.commit(None)
        listed = bench.shard.list_groups(states=states, types=types)
        assert [group.group_id for group in listed] == found
        assert all(group.kind is GroupKind.CLASSIC for group in listed)

    def test_tells_protocol_and_subscriptions_of_a_stable_group_only(self, bench: Bench) -> None:
        (member_id,) = bench.form(1)
        described = bench.shard.describe_classic("payments")
        assert (described.protocol, described.members[0].assignment) == ("range", member_id.encode())
        assert described.members[0].subscription == offers("range")[0].metadata
        bench.join(member_id)
        described = bench.shard.describe_classic("payments")
        assert (described.state_name, described.protocol) == ("CompletingRebalance", "")
        assert described.members[0].subscription == b""

    def test_does_not_know_a_group_that_is_not_there(self, bench: Bench) -> None:
        described = bench.shard.describe_classic("nobody")
        assert (described.error, described.state_name) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")

    def test_a_group_with_members_is_not_deleted(self, bench: Bench) -> None:
        (member_id,) = bench.form(1)
        assert bench.shard.offsets.delete_group("payments").response.error is ErrorCode.NON_EMPTY_GROUP
        bench.join(member_id, protocols=offers("range", topics=["refunds"]))
        assert bench.shard.offsets.delete_group("payments").response.error is ErrorCode.NON_EMPTY_GROUP
