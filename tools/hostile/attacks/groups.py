"""Attacks on group coordinators: members with much metadata, very many groups, and offsets with long texts."""

from __future__ import annotations

import time
from collections.abc import Callable

from semel.wire.apis import ApiKey
from semel.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from semel.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from semel.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from semel.wire.messages.list_groups import ListGroupsRequest
from semel.wire.messages.list_transactions import ListTransactionsRequest
from semel.wire.messages.metadata import MetadataRequest
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.wire.messages.offset_fetch import OffsetFetchRequest
from semel.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tools.hostile.attack_connection import AttackConnection
from tools.hostile.attack_context import AttackContext, attack
from tools.hostile.attacks.produced import produce
from tools.hostile.attacks.requests import frame_of
from tools.hostile.batches import sound_batch

_MEGABYTE = 2**20


def _join(group: str, *, metadata: bytes = b"", member_id: str = "", protocols: int = 1, ms: int = 1_800_000) -> object:
    return JoinGroupRequest(
        group,
        session_timeout_ms=ms,
        rebalance_timeout_ms=ms,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(f"range{number}", metadata) for number in range(protocols)],
    )


def _ready(context: AttackContext) -> None:
    """Wait until there is a coordinator, so that the requests of the attack are not refused without one."""
    with context.connect() as client:
        for _ in range(2000):
            response = client.ask(ApiKey.FIND_COORDINATOR, 3, FindCoordinatorRequest("any", 0))
            if not isinstance(response, str) and response.error_code == 0:
                return
            time.sleep(0.02)


@attack
def members_with_20_megabytes_of_metadata(context: AttackContext) -> None:
    """Thirty such members join one group, with a version of JoinGroup that needs no member id."""
    _ready(context)
    _members(context, ["heavy"] * 30)


@attack
def thirty_groups_with_20_megabytes_of_metadata(context: AttackContext) -> None:
    _ready(context)
    _members(context, [f"heavy-{number}" for number in range(30)])


def _members(context: AttackContext, names: list[str]) -> None:
    metadata = bytes(context.times(20 * _MEGABYTE, least=_MEGABYTE))
    clients: list[AttackConnection] = []
    try:
        for name in names:
            client = context.connect(timeout_s=2)
            clients.append(client)
            client.send(frame_of(ApiKey.JOIN_GROUP, 3, _join(name, metadata=metadata)))
        for client in clients:
            client.socket.settimeout(0.1)
            answer = client.receive()
            context.noted(answer if isinstance(answer, str) else "answered")
    finally:
        for client in clients:
            client.close()


@attack
def a_hundred_thousand_groups(context: AttackContext) -> None:
    """One member joins each group and sends nothing more."""
    _many_joins(context, lambda number: f"crowd-{number}")


@attack
def a_hundred_thousand_members(context: AttackContext) -> None:
    """Each JoinGroup request gets a new member id, which the broker remembers until its session ends."""
    _many_joins(context, lambda number: "one-crowd")


def _many_joins(context: AttackContext, group: Callable[[int], str]) -> None:
    _ready(context)
    with context.connect(timeout_s=20) as client:
        for start in range(0, context.times(100_000, least=500), 200):
            if context.expired:
                break
            joins = (_join(group(start + number)) for number in range(200))
            if not client.send(b"".join(frame_of(ApiKey.JOIN_GROUP, 4, join) for join in joins)):
                context.answers["closed"] += 1
                return
            for _ in range(200):
                answer = client.receive()
                if isinstance(answer, str):
                    context.answers[answer] += 1
                    return
                context.answers["answered"] += 1


@attack
def ten_thousand_members_of_a_consumer_group(context: AttackContext) -> None:
    """Each heartbeat of a new member may change the assignments of all members."""
    _ready(context)
    topic = context.new_topic(partitions=100)
    with context.connect(timeout_s=20) as client:
        for number in range(context.times(10_000, least=50)):
            if context.expired:
                break
            request = ConsumerGroupHeartbeatRequest(
                "crowd-of-consumers",
                f"member-{number}",
                0,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=[topic],
                topic_partitions=[],
            )
            context.noted(client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request))


@attack
def subscriptions_to_100000_names(context: AttackContext) -> None:
    _ready(context)
    names = [f"nowhere-{number}" for number in range(context.times(100_000))]
    for number in range(10):
        request = ConsumerGroupHeartbeatRequest(
            "wide-subscription",
            f"member-{number}",
            0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=names,
            topic_partitions=[],
        )
        with context.connect() as client:
            context.noted(client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request))


@attack
def assignments_of_50_megabytes(context: AttackContext) -> None:
    """A leader sends an assignment that is larger than a record of ``__consumer_offsets`` can be."""
    _ready(context)
    assignment = bytes(context.times(50 * _MEGABYTE, least=2 * _MEGABYTE))
    for number in range(5):
        group = f"heavy-assignment-{number}"
        with context.connect(timeout_s=20) as client:
            joined = client.ask(ApiKey.JOIN_GROUP, 3, _join(group, ms=10_000))
            if isinstance(joined, str) or joined.error_code:
                context.noted(joined)
                continue
            shares = [SyncGroupRequestAssignment(joined.member_id, assignment)]
            request = SyncGroupRequest(group, joined.generation_id, joined.member_id, assignments=shares)
            context.noted(client.ask(ApiKey.SYNC_GROUP, 3, request))


@attack
def a_group_with_2000_offsets_read_again_and_again(context: AttackContext) -> None:
    topic = context.new_topic(partitions=context.times(2_000, least=20))
    _ready(context)
    partitions = [
        OffsetCommitRequestPartition(number, 1, committed_metadata="m" * 1000)
        for number in range(context.times(2_000, least=20))
    ]
    topics = [OffsetCommitRequestTopic(topic, partitions=partitions)]
    everything = frame_of(ApiKey.OFFSET_FETCH, 5, OffsetFetchRequest("full", topics=None))
    with context.connect(timeout_s=30) as client:
        context.noted(client.ask(ApiKey.OFFSET_COMMIT, 7, OffsetCommitRequest("full", topics=topics)))
        for _ in range(context.times(200, least=5)):
            if context.expired:
                break
            context.noted(client.ask_frame(ApiKey.OFFSET_FETCH, 5, everything))


@attack
def lists_of_everything(context: AttackContext) -> None:
    """First many groups and partitions are created, then all requests that list them are repeated."""
    context.new_topic(partitions=context.times(2_000, least=20))
    commits_for_100000_groups(context)
    frames = (
        (ApiKey.LIST_GROUPS, 4, ListGroupsRequest()),
        (ApiKey.LIST_TRANSACTIONS, 1, ListTransactionsRequest()),
        (ApiKey.METADATA, 9, MetadataRequest(topics=None)),
        (ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(topics=None)),
        (ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, DescribeTopicPartitionsRequest()),
    )
    for _ in range(context.times(50, least=2)):
        for key, version, message in frames:
            if context.expired:
                return
            with context.connect(timeout_s=30) as client:
                context.must_answer(key.name, client.ask(key, version, message))


@attack
def records_for_the_internal_topics(context: AttackContext) -> None:
    """These topics have the coordinators' state; a client must not write to them."""
    _ready(context)
    for topic in ("__consumer_offsets", "__transaction_state"):
        for partition in range(5):
            with context.connect() as client:
                batch = sound_batch(b"junk", key=b"\0\1junk")
                context.must_refuse(f"a record for {topic}", produce(client, topic, batch, partition=partition))


@attack
def commits_with_long_texts(context: AttackContext) -> None:
    topic = context.new_topic()
    _ready(context)
    for size in (32_767, 4_097):
        for number in range(context.times(200, least=5)):
            partition = OffsetCommitRequestPartition(0, number, committed_metadata="m" * size)
            topics = [OffsetCommitRequestTopic(topic, partitions=[partition] * 20)]
            with context.connect() as client:
                request = OffsetCommitRequest(f"long-{number}", topics=topics)
                context.must_refuse("a commit with long metadata", client.ask(ApiKey.OFFSET_COMMIT, 8, request))


@attack
def commits_for_100000_groups(context: AttackContext) -> None:
    """Offsets of empty groups, which are kept for a week."""
    topic = context.new_topic()
    _ready(context)
    partition = OffsetCommitRequestPartition(0, 1, committed_metadata="m" * 4000)
    topics = [OffsetCommitRequestTopic(topic, partitions=[partition])]
    with context.connect() as client:
        for start in range(0, context.times(20_000, least=100), 100):
            if context.expired:
                break
            frames = (
                frame_of(ApiKey.OFFSET_COMMIT, 8, OffsetCommitRequest(f"g{start + number}", topics=topics))
                for number in range(100)
            )
            client.send(b"".join(frames))
            for _ in range(100):
                answer = client.receive()
                context.answers[answer if isinstance(answer, str) else "answered"] += 1
