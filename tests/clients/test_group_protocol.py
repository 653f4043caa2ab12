"""The classic group protocol, code by code: what Semel answers is what Apache Kafka answers.

Every test runs on both (Kafka in ``make test-kafka``), so each expectation here is known to be Kafka's.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from semel.errors import ErrorCode
from semel.wire.apis import ApiKey
from semel.wire.messages.delete_groups import DeleteGroupsRequest
from semel.wire.messages.describe_groups import DescribeGroupsRequest
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.heartbeat import HeartbeatRequest
from semel.wire.messages.join_group import JoinGroupRequestProtocol
from semel.wire.messages.leave_group import MemberIdentity
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from semel.wire.messages.sync_group import SyncGroupRequest
from tests.broker.group_client import heartbeat, join, join_request, leave, sync
from tests.broker.raw_client import RawClient
from tests.clients.conftest import APACHE_KAFKA, SEMEL
from tools.brokers import apache_kafka, semel
from tools.load import create_topic
from tools.server import Server, running

_numbers = itertools.count()

E = ErrorCode


@pytest.fixture(scope="module", params=[SEMEL, APACHE_KAFKA])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    make = semel if request.param == "semel" else apache_kafka
    settings = {"group.initial.rebalance.delay.ms": "300", "group.max.size": "3"}
    with running(make(tmp_path_factory.mktemp(request.param), settings=settings)) as started:
        create_topic(started.bootstrap_servers, "orders", partitions=2, config={})
        yield started


@pytest.fixture
def client(server: Server) -> Iterator[RawClient]:
    with connected(server) as one:
        yield one


@pytest.fixture
def other(server: Server) -> Iterator[RawClient]:
    with connected(server) as one:
        yield one


@pytest.fixture
def group(client: RawClient) -> str:
    group = f"group-{next(_numbers)}"
    while client.call(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest(group)).error_code:
        pass
    while client.call(ApiKey.HEARTBEAT, 3, HeartbeatRequest(group, 1, "m")).error_code != E.UNKNOWN_MEMBER_ID:
        pass  # The topic is being made, or the shard is loading.
    return group


def connected(server: Server) -> RawClient:
    return RawClient(int(server.bootstrap_servers.rsplit(":", 1)[1]))


def asked_to_join(client: RawClient, group: str, version: int = 9, **wishes: Any) -> Any:
    return client.call(ApiKey.JOIN_GROUP, version, join_request(group, **wishes))


def summary(answer: Any) -> tuple[int, int, str | None, bool, int]:
    """Error, generation, protocol, whether to skip the assignment, how many members are told."""
    return (
        answer.error_code,
        answer.generation_id,
        answer.protocol_name,
        answer.skip_assignment,
        len(answer.members),
    )


def commit(client: RawClient, group: str, generation: int, member_id: str, instance_id: str | None = None) -> int:
    places = [OffsetCommitRequestPartition(0, 7, -1, "")]
    request = OffsetCommitRequest(group, generation, member_id, instance_id)
    request.topics = [OffsetCommitRequestTopic("orders", partitions=places)]
    code: int = client.call(ApiKey.OFFSET_COMMIT, 8, request).topics[0].partitions[0].error_code
    return code


@pytest.mark.parametrize(
    ("wishes", "expected"),
    [
        ({}, (E.MEMBER_ID_REQUIRED, None, None, False, 0)),
        ({"member_id": "stranger"}, (E.UNKNOWN_MEMBER_ID, None, None, False, 0)),
        ({"member_id": "stranger", "instance_id": "one"}, (E.UNKNOWN_MEMBER_ID, None, None, False, 0)),
        ({"session_timeout_ms": 5999}, (E.INVALID_SESSION_TIMEOUT, None, None, False, 0)),
        ({"session_timeout_ms": 1_800_001}, (E.INVALID_SESSION_TIMEOUT, None, None, False, 0)),
        ({"protocols": []}, (E.INCONSISTENT_GROUP_PROTOCOL, None, None, False, 0)),
        ({"protocol_type": ""}, (E.INCONSISTENT_GROUP_PROTOCOL, None, None, False, 0)),
        ({"group_id": ""}, (E.INVALID_GROUP_ID, None, None, False, 0)),
    ],
)
def test_a_first_join(
    client: RawClient, group: str, wishes: dict[str, Any], expected: tuple[int, int, str | None, bool, int]
) -> None:
    assert summary(asked_to_join(client, group, **wishes)) == expected


def test_requests_of_who_is_no_member(client: RawClient, group: str) -> None:
    stranger = SyncGroupRequest(group, 1, "stranger", None, "consumer", "range")
    assert client.call(ApiKey.SYNC_GROUP, 5, stranger).error_code == E.UNKNOWN_MEMBER_ID
    assert leave(client, group, MemberIdentity("stranger")) == [0, E.UNKNOWN_MEMBER_ID]
    assert leave(client, group, MemberIdentity("stranger"), version=2) == [E.UNKNOWN_MEMBER_ID]
    joined = join(client, group)
    sync(client, group, joined)
    assert client.call(ApiKey.SYNC_GROUP, 5, stranger).error_code == E.UNKNOWN_MEMBER_ID
    assert leave(client, group, MemberIdentity("stranger")) == [0, E.UNKNOWN_MEMBER_ID]
    assert leave(client, group, MemberIdentity("", "nobody")) == [0, E.UNKNOWN_MEMBER_ID]
    assert heartbeat(client, group, joined) == 0


def test_requests_of_a_wrong_generation_or_protocol(client: RawClient, group: str) -> None:
    joined = join(client, group)
    me = joined.member_id
    assert commit(client, group, 1, me) == E.REBALANCE_IN_PROGRESS
    for generation in (0, 2):
        request = SyncGroupRequest(group, generation, me, None, "consumer", "range")
        assert client.call(ApiKey.SYNC_GROUP, 5, request).error_code == E.ILLEGAL_GENERATION
    for protocol_type, protocol in (("consumer", "sticky"), ("connect", "range"), (None, None)):
        request = SyncGroupRequest(group, 1, me, None, protocol_type, protocol)
        assert client.call(ApiKey.SYNC_GROUP, 5, request).error_code == E.INCONSISTENT_GROUP_PROTOCOL
    sync(client, group, joined)
    assert commit(client, group, 1, me) == 0
    assert commit(client, group, 0, me) == E.ILLEGAL_GENERATION
    assert commit(client, group, 1, "stranger") == E.UNKNOWN_MEMBER_ID
    assert commit(client, group, -1, "") == E.UNKNOWN_MEMBER_ID
    assert commit(client, group, -2, "") == E.UNKNOWN_MEMBER_ID


def test_joining_again(client: RawClient, other: RawClient, group: str) -> None:
    first = join(client, group)
    assert summary(first) == (0, 1, "range", False, 1)
    assert summary(asked_to_join(client, group, member_id=first.member_id)) == (0, 1, "range", False, 1)
    sync(client, group, first)
    assert summary(asked_to_join(client, group, member_id=first.member_id)) == (0, 2, "range", False, 1)
    sync(client, group, asked_to_join(client, group, member_id=first.member_id))
    own = [JoinGroupRequestProtocol("own", b"")]
    assert summary(asked_to_join(other, group, protocols=own)) == (E.INCONSISTENT_GROUP_PROTOCOL, None, None, False, 0)
    wrong = asked_to_join(other, group, protocol_type="connect")
    assert summary(wrong) == (E.INCONSISTENT_GROUP_PROTOCOL, None, None, False, 0)


def test_a_follower_joins_and_joins_again(client: RawClient, other: RawClient, group: str) -> None:
    first = join(client, group)
    sync(client, group, first)
    asked = asked_to_join(other, group)
    assert heartbeat(client, group, first) == 0, "an id that was handed out is no reason to rebalance"
    other.send(ApiKey.JOIN_GROUP, 9, join_request(group, asked.member_id))
    while heartbeat(client, group, first) != E.REBALANCE_IN_PROGRESS:
        pass
    request = SyncGroupRequest(group, 1, first.member_id, None, "consumer", "range")
    assert client.call(ApiKey.SYNC_GROUP, 5, request).error_code == E.REBALANCE_IN_PROGRESS
    assert commit(client, group, 1, first.member_id) == 0
    leader = asked_to_join(client, group, member_id=first.member_id)
    follower = other.receive(ApiKey.JOIN_GROUP, 9)
    assert (summary(leader)[:4], len(leader.members)) == (summary(follower)[:4], 2)
    sync(client, group, leader)
    assert sync(other, group, follower).assignment == follower.member_id.encode()
    again = asked_to_join(other, group, member_id=follower.member_id)
    assert summary(again) == (0, leader.generation_id, "range", False, 0), "nothing new, so no rebalance"
    assert heartbeat(client, group, leader) == 0


@pytest.mark.parametrize("version", [5, 8, 9])
def test_a_static_member_comes_back(client: RawClient, group: str, version: int) -> None:
    first = asked_to_join(client, group, version, instance_id="one")
    assert first.member_id.startswith("one-")
    sync(client, group, first, instance_id="one")
    back = asked_to_join(client, group, version, instance_id="one")
    assert back.generation_id == 1
    assert back.member_id != first.member_id
    if version >= 9:
        assert (back.leader, back.skip_assignment, len(back.members)) == (back.member_id, True, 1)
    else:
        assert (back.leader, len(back.members)) == (first.member_id, 0)
    assert sync(client, group, back, instance_id="one").assignment == first.member_id.encode()
    fenced = HeartbeatRequest(group, 1, first.member_id, "one")
    assert client.call(ApiKey.HEARTBEAT, 4, fenced).error_code == E.FENCED_INSTANCE_ID
    assert heartbeat(client, group, first) == E.UNKNOWN_MEMBER_ID
    assert commit(client, group, 1, first.member_id, "one") == E.FENCED_INSTANCE_ID
    again = asked_to_join(client, group, member_id=first.member_id, instance_id="one")
    assert again.error_code == E.FENCED_INSTANCE_ID
    assert leave(client, group, MemberIdentity(first.member_id, "one")) == [0, E.FENCED_INSTANCE_ID]
    assert leave(client, group, MemberIdentity("", "one")) == [0, 0]
    assert heartbeat(client, group, back) == E.UNKNOWN_MEMBER_ID


def test_what_is_told_of_a_group_and_its_end(client: RawClient, group: str) -> None:
    def described(version: int) -> tuple[int, str, str, str, int]:
        (found,) = client.call(ApiKey.DESCRIBE_GROUPS, version, DescribeGroupsRequest([group])).groups
        return found.error_code, found.group_state, found.protocol_type, found.protocol_data, len(found.members)

    def deleted() -> int:
        code: int = client.call(ApiKey.DELETE_GROUPS, 2, DeleteGroupsRequest([group])).results[0].error_code
        return code

    def offsets_deleted(*partitions: int) -> tuple[int, dict[int, int]]:
        asked = [OffsetDeleteRequestPartition(partition) for partition in partitions]
        request = OffsetDeleteRequest(group, [OffsetDeleteRequestTopic("orders", asked)])
        answer = client.call(ApiKey.OFFSET_DELETE, 0, request)
        return answer.error_code, {one.partition_index: one.error_code for t in answer.topics for one in t.partitions}

    assert described(5) == (0, "Dead", "", "", 0)
    assert described(6) == (E.GROUP_ID_NOT_FOUND, "Dead", "", "", 0)
    assert deleted() == E.GROUP_ID_NOT_FOUND
    assert offsets_deleted(0) == (E.GROUP_ID_NOT_FOUND, {})
    joined = join(client, group)
    assert described(5) == (0, "CompletingRebalance", "consumer", "", 1)
    sync(client, group, joined)
    assert described(6) == (0, "Stable", "consumer", "range", 1)
    assert deleted() == E.NON_EMPTY_GROUP
    assert commit(client, group, 1, joined.member_id) == 0
    assert offsets_deleted(0, 9) == (0, {0: E.GROUP_SUBSCRIBED_TO_TOPIC, 9: E.UNKNOWN_TOPIC_OR_PARTITION})
    leave(client, group, MemberIdentity(joined.member_id))
    assert described(6) == (0, "Empty", "consumer", "", 0)
    assert offsets_deleted(0) == (0, {0: 0})
    assert deleted() == 0
    assert described(5) == (0, "Dead", "", "", 0)


def test_a_full_group(server: Server, group: str) -> None:
    clients = [connected(server) for _ in range(4)]
    try:
        ids = [asked_to_join(client, group).member_id for client in clients[:3]]
        for client, member_id in zip(clients, ids, strict=False):
            client.send(ApiKey.JOIN_GROUP, 9, join_request(group, member_id))
        generations = {client.receive(ApiKey.JOIN_GROUP, 9).generation_id for client in clients[:3]}
        assert generations == {1}
        refused = asked_to_join(clients[3], group)
        assert (refused.error_code, refused.member_id) == (E.GROUP_MAX_SIZE_REACHED, "")
    finally:
        for client in clients:
            client.socket.close()
