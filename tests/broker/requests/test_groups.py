"""The classic group protocol over the wire, in every version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from semel.coordinator.decision import Decision
from semel.coordinator.group.records import OffsetCommit, OffsetKey
from semel.errors import ErrorCode
from semel.testing import Broker
from semel.wire.apis import APIS, ApiKey
from semel.wire.messages.delete_groups import DeleteGroupsRequest
from semel.wire.messages.describe_groups import DescribeGroupsRequest
from semel.wire.messages.leave_group import MemberIdentity
from semel.wire.messages.list_groups import ListGroupsRequest
from semel.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from semel.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.group_client import METADATA, heartbeat, join, join_request, leave, sync
from tests.broker.offset_client import commit, fetch
from tests.broker.raw_client import RawClient
from tests.broker.transactional_client import GROUP, Transactional, find_coordinator


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(group_initial_rebalance_delay_ms=0) as running:
        yield running


@pytest.fixture
def group(client: RawClient, name: str) -> str:
    group = f"group of {name}"
    assert find_coordinator(client, group, GROUP).error_code == 0
    return group


def versions(key: ApiKey) -> list[int]:
    return list(range(APIS[key].min_version, APIS[key].max_version + 1))


class TestEveryVersion:
    @pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
    def test_of_join_group(self, client: RawClient, group: str, version: int) -> None:
        first = client.call(ApiKey.JOIN_GROUP, version, join_request(group))
        if version >= 4:
            assert (first.error_code, first.generation_id) == (ErrorCode.MEMBER_ID_REQUIRED, None)
            first = client.call(ApiKey.JOIN_GROUP, version, join_request(group, first.member_id))
        assert (first.error_code, first.generation_id, first.protocol_name) == (0, 1, "range")
        assert first.protocol_type == ("consumer" if version >= 7 else None)
        assert first.member_id == first.leader
        assert first.member_id.startswith("raw-")
        assert [(one.member_id, one.metadata) for one in first.members] == [(first.member_id, METADATA)]

    @pytest.mark.parametrize("version", versions(ApiKey.SYNC_GROUP))
    def test_of_sync_group(self, client: RawClient, group: str, version: int) -> None:
        joined = join(client, group)
        answer = sync(client, group, joined, version=version)
        assert (answer.error_code, answer.assignment) == (0, joined.member_id.encode())
        assert answer.protocol_name == ("range" if version >= 5 else None)

    @pytest.mark.parametrize("version", versions(ApiKey.HEARTBEAT))
    def test_of_heartbeat(self, client: RawClient, group: str, version: int) -> None:
        joined = join(client, group)
        assert heartbeat(client, group, joined, version=version) == 0
        joined.generation_id = 7
        assert heartbeat(client, group, joined, version=version) == ErrorCode.ILLEGAL_GENERATION

    @pytest.mark.parametrize("version", versions(ApiKey.LEAVE_GROUP))
    def test_of_leave_group(self, client: RawClient, group: str, version: int) -> None:
        joined = join(client, group)
        unknown = leave(client, group, MemberIdentity("stranger"), version=version)
        left = leave(client, group, MemberIdentity(joined.member_id, None, "test is over"), version=version)
        if version >= 3:
            assert (unknown, left) == ([0, ErrorCode.UNKNOWN_MEMBER_ID], [0, 0])
        else:
            assert (unknown, left) == ([ErrorCode.UNKNOWN_MEMBER_ID], [0])
        assert heartbeat(client, group, joined) == ErrorCode.UNKNOWN_MEMBER_ID

    @pytest.mark.parametrize("version", versions(ApiKey.DESCRIBE_GROUPS))
    def test_of_describe_groups(self, client: RawClient, group: str, version: int) -> None:
        joined = join(client, group, instance_id="one")
        sync(client, group, joined, instance_id="one")
        request = DescribeGroupsRequest([group, "nobody"], include_authorized_operations=version >= 3)
        found, missing = client.call(ApiKey.DESCRIBE_GROUPS, version, request).groups
        assert (found.error_code, found.group_id, found.group_state) == (0, group, "Stable")
        assert (found.protocol_type, found.protocol_data) == ("consumer", "range")
        (member,) = found.members
        assert (member.member_id, member.client_id, member.client_host) == (joined.member_id, "raw", "/127.0.0.1")
        assert member.group_instance_id == ("one" if version >= 4 else None)
        assert (member.member_metadata, member.member_assignment) == (METADATA, joined.member_id.encode())
        assert (missing.group_id, missing.group_state) == ("nobody", "Dead")
        assert missing.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)

    @pytest.mark.parametrize("version", versions(ApiKey.LIST_GROUPS))
    def test_of_list_groups(self, client: RawClient, group: str, version: int) -> None:
        sync(client, group, join(client, group))
        listed = {one.group_id: one for one in client.call(ApiKey.LIST_GROUPS, version, ListGroupsRequest()).groups}
        assert listed[group].protocol_type == "consumer"
        assert listed[group].group_state == ("Stable" if version >= 4 else "")
        assert listed[group].group_type == ("classic" if version >= 5 else "")

    @pytest.mark.parametrize("version", versions(ApiKey.DELETE_GROUPS))
    def test_of_delete_groups(self, client: RawClient, group: str, topic: str, version: int) -> None:
        joined = join(client, group)
        commit(client, group, topic, 17)
        errors = [one.error_code for one in delete(client, group, "nobody", version=version)]
        assert errors == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND]
        leave(client, group, MemberIdentity(joined.member_id))
        assert [one.error_code for one in delete(client, group, version=version)] == [0]
        assert fetch(client, group, [(topic, [0])])[topic, 0][1] is None
        assert describe(client, group).group_state == "Dead"


class TestListGroups:
    def test_filters_by_state_and_type_in_any_case(self, client: RawClient, group: str, topic: str) -> None:
        sync(client, group, join(client, group))
        simple = f"{group} (simple)"
        commit(client, simple, topic, 17)

        def found(states: list[str], types: list[str]) -> set[str]:
            listed = client.call(ApiKey.LIST_GROUPS, 5, ListGroupsRequest(states, types)).groups
            return {one.group_id for one in listed} & {group, simple}

        assert found([], []) == {group, simple}
        assert found(["STABLE"], ["Classic"]) == {group}
        assert found(["empty"], []) == {simple}
        assert found(["PreparingRebalance"], []) == set()
        assert found([], ["consumer"]) == set()


class TestOffsetDelete:
    def test_says_of_each_partition_how_it_went(self, client: RawClient, group: str, topic: str) -> None:
        commit(client, group, topic, 17)
        request = OffsetDeleteRequest(
            group,
            [
                OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(0), OffsetDeleteRequestPartition(9)]),
                OffsetDeleteRequestTopic("nowhere", [OffsetDeleteRequestPartition(0)]),
            ],
        )
        answer = client.call(ApiKey.OFFSET_DELETE, 0, request)
        assert answer.error_code == 0
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [[one.error_code for one in t.partitions] for t in answer.topics] == [[0, unknown], [unknown]]
        assert fetch(client, group, [(topic, [0])])[topic, 0][1] is None

    def test_of_a_group_that_is_not_there(self, client: RawClient, topic: str) -> None:
        asked = [OffsetDeleteRequestTopic(topic, [OffsetDeleteRequestPartition(0)])]
        answer = client.call(ApiKey.OFFSET_DELETE, 0, OffsetDeleteRequest("nobody", asked))
        assert (answer.error_code, answer.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


def begin_rebalance(joining: RawClient, client: RawClient, group: str, first: Any) -> str:
    """A second member joins, and the first one has heard of it. Returns the id of the second."""
    asked = joining.call(ApiKey.JOIN_GROUP, 9, join_request(group))
    joining.send(ApiKey.JOIN_GROUP, 9, join_request(group, asked.member_id))
    while heartbeat(client, group, first) != ErrorCode.REBALANCE_IN_PROGRESS:
        pass
    member_id: str = asked.member_id
    return member_id


class TestARebalance:
    def test_answers_all_who_joined_when_the_last_one_has(self, broker: Broker, client: RawClient, group: str) -> None:
        first = join(client, group)
        sync(client, group, first)
        with RawClient(broker.port) as other:
            begin_rebalance(other, client, group, first)
            assert not other.has_answer(0.05)
            again = join(client, group, first.member_id)
            second = other.receive(ApiKey.JOIN_GROUP, 9)
            assert (again.generation_id, second.generation_id) == (2, 2)
            assert (second.leader, second.members) == (first.member_id, [])
            other.send(ApiKey.SYNC_GROUP, 4, SyncGroupRequest(group, 2, second.member_id))
            assert not other.has_answer(0.05), "there is no assignment yet"
            sync(client, group, again)
            assert other.receive(ApiKey.SYNC_GROUP, 4).assignment == second.member_id.encode()

    def test_goes_on_with_a_member_whose_client_went_away_while_it_waited(
        self, broker: Broker, client: RawClient, group: str
    ) -> None:
        first = join(client, group)
        sync(client, group, first)
        with RawClient(broker.port) as gone:
            member_id = begin_rebalance(gone, client, group, first)
        again = join(client, group, first.member_id)
        assert {one.member_id for one in again.members} == {first.member_id, member_id}


class TestAfterKill:
    def test_a_stable_group_is_stable_and_its_members_carry_on(self) -> None:
        with Broker(group_initial_rebalance_delay_ms=0) as broker:
            with RawClient(broker.port) as client:
                find_coordinator(client, "g", GROUP)
                client.create_topic("orders")
                joined = join(client, "g")
                sync(client, "g", joined)
            broker.restart(kill=True)
            with RawClient(broker.port) as client:
                assert heartbeat(client, "g", joined) == 0
                who: Any = {"generation_id_or_member_epoch": 1, "member_id": joined.member_id}
                assert commit(client, "g", "orders", 17, **who) == 0
                assert sync(client, "g", joined).assignment == joined.member_id.encode()

    def test_who_waits_when_the_broker_stops_is_told_to_look_elsewhere(self) -> None:
        """Law 6."""
        with Broker(group_initial_rebalance_delay_ms=60_000) as broker, RawClient(broker.port) as client:
            find_coordinator(client, "g", GROUP)
            client.send(ApiKey.JOIN_GROUP, 3, join_request("g"))
            with RawClient(broker.port) as other:
                while describe(other, "g").group_state != "PreparingRebalance":
                    pass
            broker.stop()
            assert client.receive(ApiKey.JOIN_GROUP, 3).error_code == ErrorCode.NOT_COORDINATOR


class TestRefusals:
    def test_without_a_group_id(self, client: RawClient) -> None:
        find_coordinator(client, "", GROUP)
        invalid = ErrorCode.INVALID_GROUP_ID
        joined = client.call(ApiKey.JOIN_GROUP, 9, join_request(""))
        assert (joined.error_code, joined.generation_id) == (invalid, None)
        joined.generation_id = 1
        assert sync(client, "", joined).error_code == invalid
        assert heartbeat(client, "", joined) == invalid
        assert leave(client, "", MemberIdentity("m")) == [invalid]

    def test_of_a_sync_in_version_5_that_does_not_name_the_protocol(self, client: RawClient, group: str) -> None:
        joined = join(client, group)
        request = SyncGroupRequest(group, joined.generation_id, joined.member_id)
        answer = client.call(ApiKey.SYNC_GROUP, 5, request)
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    def test_up_to_version_6_has_a_protocol_name_that_is_not_null(self, client: RawClient, group: str) -> None:
        answer = client.call(ApiKey.JOIN_GROUP, 6, join_request(group, "stranger"))
        assert (answer.error_code, answer.protocol_name) == (ErrorCode.UNKNOWN_MEMBER_ID, "")

    @pytest.mark.parametrize("generation", [-1, -2])
    def test_of_a_commit_by_who_is_no_member_of_a_group_that_has_some(
        self, client: RawClient, group: str, topic: str, generation: int
    ) -> None:
        """Anything negative is no generation."""
        assert commit(client, group, topic, 17, generation_id_or_member_epoch=generation) == 0
        join(client, group)
        code = commit(client, group, topic, 18, generation_id_or_member_epoch=generation)
        assert code == ErrorCode.UNKNOWN_MEMBER_ID


def describe(client: RawClient, group: str) -> Any:
    (found,) = client.call(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest([group])).groups
    return found


def delete(client: RawClient, *groups: str, version: int = 2) -> list[Any]:
    results: list[Any] = client.call(ApiKey.DELETE_GROUPS, version, DeleteGroupsRequest(list(groups))).results
    return results


def test_groups_are_measured_by_state() -> None:
    with Broker(group_initial_rebalance_delay_ms=0) as broker, RawClient(broker.port) as client:
        find_coordinator(client, "g", GROUP)
        sync(client, "g", join(client, "g"))
        join(client, "other")
        assert broker._broker is not None
        page = broker._broker.metrics.render()
    found = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    assert found['semel_groups{type="classic",state="Stable"}'] == "1"
    assert found['semel_groups{type="classic",state="CompletingRebalance"}'] == "1"
    assert found['semel_groups{type="consumer",state="Stable"}'] == "0"
    assert found['semel_group_members{type="classic"}'] == "2"


class TestScenario53:
    """A zombie does not commit in a transaction either."""

    @pytest.mark.parametrize("version", [3, 5])
    def test_a_zombie_of_an_old_generation_an_unknown_member_and_a_replaced_instance_are_refused(
        self, client: RawClient, group: str, topic: str, version: int
    ) -> None:
        joined = join(client, group, instance_id="one")
        sync(client, group, joined, instance_id="one")
        producer = Transactional(client, f"producer of {topic} {version}")
        producer.find()
        producer.init()
        who: Any = {"generation_id": 1, "member_id": joined.member_id, "group_instance_id": "one"}
        if version < 5:
            producer.add_offsets(group)
        assert producer.commit_offset(group, topic, 1, version=version, **who) == 0
        for change, error in (
            ({"generation_id": 0}, ErrorCode.ILLEGAL_GENERATION),
            ({"member_id": "stranger", "group_instance_id": None}, ErrorCode.UNKNOWN_MEMBER_ID),
        ):
            assert producer.commit_offset(group, topic, 2, version=version, **{**who, **change}) == error
        join(client, group, instance_id="one")
        assert producer.commit_offset(group, topic, 3, version=version, **who) == ErrorCode.FENCED_INSTANCE_ID
        assert producer.end(True).error_code == 0
        while (told := fetch(client, group, [(topic, [0])], stable=True)[topic, 0])[0]:
            assert told[0] == ErrorCode.UNSTABLE_OFFSET_COMMIT
        assert told[1] == 1


def test_an_offset_of_a_former_topic_of_the_same_name_is_not_told(broker: Broker, client: RawClient) -> None:
    """The coordinator may not have heard yet that the topic went: nobody is to start in the middle of the new one."""
    find_coordinator(client, "late", GROUP)
    client.create_topic("again")
    former = OffsetCommit(OffsetKey("late", "again", 0), 17, None, "", 0, topic_id=UUID(int=7))

    async def write() -> None:
        assert broker._broker is not None
        groups = broker._broker.node.coordinators.groups
        runtime = groups.runtime(groups.partition_for("late"))
        assert runtime is not None
        assert runtime.apply(Decision(None, (former,)))

    broker._call(write())
    for version in (1, 7, 9, 10):
        assert {found[1] for found in fetch(client, "late", [("again", [0])], version=version).values()} == {None}


def test_expired_offsets_and_the_groups_that_had_nothing_else_go_by_themselves() -> None:
    with Broker(offsets_retention_check_interval_ms=20) as broker, RawClient(broker.port) as client:
        client.create_topic("orders")
        groups = [f"group {number}" for number in range(7)]
        find_coordinator(client, "any", GROUP)
        for group in groups:
            assert commit(client, group, "orders", 17, version=4, retention_time_ms=1) == 0
        commit(client, "stays", "orders", 17)
        while len(listed := client.call(ApiKey.LIST_GROUPS, 4, ListGroupsRequest()).groups) > 1:
            pass
        assert [one.group_id for one in listed] == ["stays"]


def test_a_group_that_is_larger_than_any_message_may_be_is_written_down_and_comes_back() -> None:
    with Broker(group_initial_rebalance_delay_ms=0, message_max_bytes=2000) as broker:
        with RawClient(broker.port) as client:
            find_coordinator(client, "g", GROUP)
            joined = join(client, "g")
            assigned = [SyncGroupRequestAssignment(joined.member_id, bytes(300_000))]
            request = SyncGroupRequest("g", 1, joined.member_id, None, "consumer", "range", assigned)
            assert client.call(ApiKey.SYNC_GROUP, 5, request).error_code == 0
        broker.restart(kill=True)
        with RawClient(broker.port) as client:
            request.assignments = []
            assert client.call(ApiKey.SYNC_GROUP, 5, request).assignment == bytes(300_000)
