"""What Apache Kafka 4.3 asks for, API by API, said once more and naively: a request, and what its answer says of each
place, by what the client may do.

``may("READ", "TOPIC", name)`` is the naive statement about one operation. Nothing here comes from the declarations.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

from semel.wire.apis import APIS, ApiKey
from semel.wire.codes import AclOperation, AclResourceType
from semel.wire.messages import alter_configs as legacy
from semel.wire.messages import incremental_alter_configs as incremental
from semel.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from semel.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from semel.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from semel.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from semel.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialDeletion
from semel.wire.messages.api_versions import ApiVersionsRequest
from semel.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from semel.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from semel.wire.messages.create_acls import AclCreation, CreateAclsRequest
from semel.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from semel.wire.messages.delete_groups import DeleteGroupsRequest
from semel.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from semel.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from semel.wire.messages.describe_acls import DescribeAclsRequest
from semel.wire.messages.describe_client_quotas import DescribeClientQuotasRequest
from semel.wire.messages.describe_cluster import DescribeClusterRequest
from semel.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from semel.wire.messages.describe_groups import DescribeGroupsRequest
from semel.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from semel.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from semel.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from semel.wire.messages.describe_topic_partitions import TopicRequest as TopicToDescribe
from semel.wire.messages.describe_transactions import DescribeTransactionsRequest
from semel.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from semel.wire.messages.elect_leaders import ElectLeadersRequest
from semel.wire.messages.elect_leaders import TopicPartitions as LedPartitions
from semel.wire.messages.end_txn import EndTxnRequest
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from semel.wire.messages.find_coordinator import FindCoordinatorRequest
from semel.wire.messages.heartbeat import HeartbeatRequest
from semel.wire.messages.init_producer_id import InitProducerIdRequest
from semel.wire.messages.join_group import JoinGroupRequest
from semel.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from semel.wire.messages.list_config_resources import ListConfigResourcesRequest
from semel.wire.messages.list_groups import ListGroupsRequest
from semel.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from semel.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from semel.wire.messages.list_transactions import ListTransactionsRequest
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
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
from semel.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from semel.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from semel.wire.messages.sasl_handshake import SaslHandshakeRequest
from semel.wire.messages.sync_group import SyncGroupRequest
from semel.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from semel.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from semel.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.broker.raw_client import batch
from tests.properties.security.access_world import DOOMED, GROUPS, IDS, MISSING, NAMED, TOPICS, Place, World

TOPIC, GROUP, CLUSTER, ID = 29, 30, 31, 53
CLUSTER_NAME: Final = "kafka-cluster"

May = Callable[..., bool]
Places = dict[Place, int]


@dataclass(frozen=True)
class Asked:
    """A request, and what Kafka answers to a client that may do what ``may`` says."""

    message: object
    expected: Callable[[May], Places]


class Rule(NamedTuple):
    ask: Callable[[World, int, int], Asked]
    """By the version, and the number of a variant."""
    variants: int
    prepare: Callable[[World], None]
    about: tuple[tuple[AclOperation, AclResourceType], ...]
    """The rights that make a difference."""


RULES: dict[ApiKey, Rule] = {}


def rule(
    key: ApiKey, about: str = "", *, variants: int = 1, prepare: Callable[[World], None] = lambda world: None
) -> Callable[[Callable[[World, int, int], Asked]], None]:
    """``about`` lists rights: ``READ TOPIC, WRITE GROUP``."""
    pairs = [pair.split() for pair in about.split(",") if pair]
    rights = tuple((AclOperation[operation], AclResourceType[kind]) for operation, kind in pairs)

    def declare(ask: Callable[[World, int, int], Asked]) -> None:
        RULES[key] = Rule(ask, variants, prepare, rights)

    return declare


def code(allowed: bool, refusal: int) -> int:
    return 0 if allowed else refusal


def whole(allowed: bool, refusal: int) -> Places:
    return {} if allowed else {(): refusal}


def of_cluster(may: May, operation: str) -> bool:
    return may(operation, "CLUSTER", CLUSTER_NAME)


def each_partition(may: May, operation: str) -> Places:
    return {(name, 0): code(may(operation, "TOPIC", name), TOPIC) for name in NAMED}


# Records


@rule(ApiKey.PRODUCE, "WRITE TOPIC, WRITE TRANSACTIONAL_ID", variants=3)
def produce(world: World, version: int, variant: int) -> Asked:
    transactional = variant > 0
    named = "i-a" if variant == 1 else None
    options = {"producer_id": 4711, "producer_epoch": 0, "base_sequence": 0} if transactional else {}
    records = batch(b"a", is_transactional=transactional, **options)
    by_id = version >= 13
    topics = [
        TopicProduceData(
            "" if by_id else name, world.ids.get(name, world.unknown_id), [PartitionProduceData(0, records)]
        )
        for name in NAMED
    ]

    def expected(may: May) -> Places:
        told = {}
        id_allowed = named is not None and may("WRITE", "TRANSACTIONAL_ID", named)
        for name in NAMED:
            place = (("#?" if name == MISSING else "#" + name) if by_id else name, 0)
            if transactional and not id_allowed:
                told[place] = ID
            elif by_id and name == MISSING:
                told[place] = 0
            else:
                told[place] = code(may("WRITE", "TOPIC", name), TOPIC)
        return told

    return Asked(ProduceRequest(named, -1, 10_000, topics), expected)


@rule(ApiKey.FETCH, "READ TOPIC, CLUSTER_ACTION CLUSTER", variants=2)
def fetch(world: World, version: int, variant: int) -> Asked:
    by_id = version >= 13
    partitions = [FetchPartition(0, fetch_offset=0, partition_max_bytes=100)]
    topics = [
        FetchTopic("" if by_id else name, world.ids.get(name, world.unknown_id), partitions)
        for name in (TOPICS if variant else NAMED)
    ]
    message = FetchRequest(max_bytes=1000, topics=topics)
    if variant:
        message.replica_id = 7
        message.replica_state = ReplicaState(7, -1)

    def expected(may: May) -> Places:
        told = {}
        for name in TOPICS if variant else NAMED:
            place = (("#?" if name == MISSING else "#" + name) if by_id else name, 0)
            if variant:
                told[place] = code(of_cluster(may, "CLUSTER_ACTION"), TOPIC)
            else:
                told[place] = code(may("READ", "TOPIC", name) or (by_id and name == MISSING), TOPIC)
        return told

    return Asked(message, expected)


@rule(ApiKey.LIST_OFFSETS, "DESCRIBE TOPIC")
def list_offsets(world: World, version: int, variant: int) -> Asked:
    topics = [ListOffsetsTopic(name, [ListOffsetsPartition(0, timestamp=-1)]) for name in NAMED]
    return Asked(ListOffsetsRequest(topics=topics), lambda may: each_partition(may, "DESCRIBE"))


@rule(ApiKey.OFFSET_FOR_LEADER_EPOCH, "DESCRIBE TOPIC, CLUSTER_ACTION CLUSTER")
def offset_for_leader_epoch(world: World, version: int, variant: int) -> Asked:
    topics = [OffsetForLeaderTopic(name, [OffsetForLeaderPartition(0, leader_epoch=0)]) for name in NAMED]

    def expected(may: May) -> Places:
        if of_cluster(may, "CLUSTER_ACTION"):
            return dict.fromkeys(((name, 0) for name in NAMED), 0)
        return each_partition(may, "DESCRIBE")

    return Asked(OffsetForLeaderEpochRequest(topics=topics), expected)


@rule(ApiKey.DELETE_RECORDS, "DELETE TOPIC")
def delete_records(world: World, version: int, variant: int) -> Asked:
    topics = [DeleteRecordsTopic(name, [DeleteRecordsPartition(0, 0)]) for name in NAMED]
    return Asked(DeleteRecordsRequest(topics, 10_000), lambda may: each_partition(may, "DELETE"))


@rule(ApiKey.DESCRIBE_PRODUCERS, "READ TOPIC")
def describe_producers(world: World, version: int, variant: int) -> Asked:
    topics = [TopicRequest(name, [0]) for name in NAMED]
    return Asked(DescribeProducersRequest(topics), lambda may: each_partition(may, "READ"))


# Topics


@rule(
    ApiKey.METADATA,
    "DESCRIBE TOPIC, CREATE TOPIC, CREATE CLUSTER",
    variants=4,
    prepare=lambda world: world.forget_missing(),
)
def metadata(world: World, version: int, variant: int) -> Asked:
    by_id = variant == 2 and version >= 12
    everything = variant == 3
    creates = (variant == 1 or version < 4) and not by_id and not everything
    all_topics = dict(world.ids)
    if everything:
        asked = [] if version == 0 else None
    elif by_id:
        asked = [MetadataRequestTopic(all_topics.get(name, world.unknown_id), None) for name in NAMED]
    else:
        asked = [MetadataRequestTopic(name=name) for name in NAMED]

    def described(name: str) -> Places:
        place: Place = (name, "#" + name) if version >= 10 else (name,)
        partitions = {(*place, index): 0 for index in range(world.partition_count(name))}
        return {place: 0} | partitions

    def expected(may: May) -> Places:
        told: Places = {}
        for name in all_topics if everything else NAMED:
            allowed = may("DESCRIBE", "TOPIC", name)
            if by_id and name == MISSING:
                told[("#?",)] = 0
            elif not allowed and by_id:
                told[("#" + name,)] = TOPIC  # Not its name.
            elif not allowed and not everything:
                told[(name,)] = TOPIC  # Not its id.
            elif allowed and name in all_topics:
                told |= described(name)
            elif allowed and creates:
                if not (of_cluster(may, "CREATE") or may("CREATE", "TOPIC", name)):
                    told[(name,)] = TOPIC
                elif world.is_semel:
                    told |= described(name)
                else:
                    told[(name,)] = 0
            elif allowed:
                told[(name,)] = 0
        return told

    return Asked(MetadataRequest(asked, allow_auto_topic_creation=creates), expected)


@rule(ApiKey.DESCRIBE_TOPIC_PARTITIONS, "DESCRIBE TOPIC", variants=2, prepare=lambda world: world.forget_missing())
def describe_topic_partitions(world: World, version: int, variant: int) -> Asked:
    everything = variant == 1
    existing = dict(world.ids)

    def expected(may: May) -> Places:
        told: Places = {}
        for name in existing if everything else NAMED:
            if may("DESCRIBE", "TOPIC", name):
                if name in existing:
                    count = world.partition_count(name)
                    told |= {(name, "#" + name): 0} | {(name, "#" + name, index): 0 for index in range(count)}
                else:
                    told[(name,)] = 0
            elif not everything:
                told[(name,)] = TOPIC
        return told

    asked = [] if everything else [TopicToDescribe(name) for name in NAMED]
    return Asked(DescribeTopicPartitionsRequest(asked, 2000), expected)


@rule(ApiKey.CREATE_TOPICS, "CREATE TOPIC, CREATE CLUSTER", prepare=lambda world: world.forget_missing())
def create_topics(world: World, version: int, variant: int) -> Asked:
    def expected(may: May) -> Places:
        told: Places = {}
        for name in NAMED:
            allowed = of_cluster(may, "CREATE") or may("CREATE", "TOPIC", name)
            created = allowed and name == MISSING
            told[(name, "#?") if created and version >= 7 else (name,)] = code(allowed, TOPIC)
        return told

    topics = [CreatableTopic(name, 1, 1) for name in NAMED]
    return Asked(CreateTopicsRequest(topics, validate_only=True), expected)


@rule(ApiKey.CREATE_PARTITIONS, "ALTER TOPIC")
def create_partitions(world: World, version: int, variant: int) -> Asked:
    topics = [CreatePartitionsTopic(name, 1) for name in NAMED]  # No more than they have: nothing changes.
    return Asked(
        CreatePartitionsRequest(topics, 10_000),
        lambda may: {(name,): code(may("ALTER", "TOPIC", name), TOPIC) for name in NAMED},
    )


@rule(
    ApiKey.DELETE_TOPICS,
    "DELETE TOPIC, DESCRIBE TOPIC, DELETE CLUSTER",
    variants=2,
    prepare=lambda world: world.make_doomed(),
)
def delete_topics(world: World, version: int, variant: int) -> Asked:
    by_id = variant == 1 and version >= 6
    ids = dict(world.ids)
    names = (*DOOMED, "d-x")
    asked = [
        DeleteTopicState(None, ids.get(name, world.unknown_id)) if by_id else DeleteTopicState(name) for name in names
    ]

    def expected(may: May) -> Places:
        told: Places = {}
        for name in names:
            describes = may("DESCRIBE", "TOPIC", name) or of_cluster(may, "DELETE")
            deletes = may("DELETE", "TOPIC", name) or of_cluster(may, "DELETE")
            if by_id and name not in ids:
                told[("#?",)] = 0
            elif by_id:
                # Its id is gone with it, and its name is told only to those who may describe it.
                gone = ("#?",) if deletes else ("#" + name,)
                told[(name, *gone) if deletes or describes else gone] = code(deletes, TOPIC)
            elif not describes:
                told[(name,)] = TOPIC
            elif name not in ids:
                told[(name,)] = 0
            else:
                told[(name, "#?") if deletes and version >= 6 else (name,)] = code(deletes, TOPIC)
        return told

    return Asked(DeleteTopicsRequest(asked, list(names), 10_000), expected)


# Groups


def _commits(world: World) -> None:
    world.commit_offsets()


@rule(ApiKey.OFFSET_COMMIT, "READ GROUP, READ TOPIC")
def offset_commit(world: World, version: int, variant: int) -> Asked:
    by_id = version >= 10
    partitions = [OffsetCommitRequestPartition(0, 0, committed_metadata="")]
    topics = [OffsetCommitRequestTopic(name, world.ids.get(name, world.unknown_id), partitions) for name in NAMED]

    def expected(may: May) -> Places:
        told: Places = {}
        for name in NAMED:
            place = (("#?" if name == MISSING else "#" + name) if by_id else name, 0)
            if not may("READ", "GROUP", "g-a"):
                told[place] = GROUP
            else:
                told[place] = code(may("READ", "TOPIC", name) or (by_id and name == MISSING), TOPIC)
        return told

    return Asked(OffsetCommitRequest("g-a", topics=topics), expected)


@rule(ApiKey.OFFSET_FETCH, "DESCRIBE GROUP, DESCRIBE TOPIC", variants=2, prepare=_commits)
def offset_fetch(world: World, version: int, variant: int) -> Asked:
    everything = variant == 1 and version >= 2
    by_id = version >= 10
    ids = world.ids

    def place(name: str) -> Place:
        return (("#?" if name == MISSING else "#" + name) if by_id else name, 0)

    def topics(may: May) -> Places:
        if everything:
            return {place(name): 0 for name in TOPICS if may("DESCRIBE", "TOPIC", name)}
        return {
            place(name): code(may("DESCRIBE", "TOPIC", name) or (by_id and name == MISSING), TOPIC) for name in NAMED
        }

    def expected(may: May) -> Places:
        if version < 8:
            if may("DESCRIBE", "GROUP", "g-a"):
                return topics(may)
            refused = {} if everything else {place(name): GROUP for name in NAMED}
            if version < 2:
                return refused
            return refused | {(): GROUP} if world.is_semel else {(): GROUP}
        told: Places = {}
        for group in GROUPS:
            allowed = may("DESCRIBE", "GROUP", group)
            told[(group,)] = code(allowed, GROUP)
            if allowed:
                told |= {(group, *place): code for place, code in topics(may).items()}
        return told

    named = [OffsetFetchRequestTopics(name, ids.get(name, world.unknown_id), [0]) for name in NAMED]
    groups = [OffsetFetchRequestGroup(group, topics=None if everything else named) for group in GROUPS]
    old = None if everything else [OffsetFetchRequestTopic(name, [0]) for name in NAMED]
    return Asked(OffsetFetchRequest("g-a", old, groups), expected)


@rule(ApiKey.OFFSET_DELETE, "DELETE GROUP, READ TOPIC", prepare=_commits)
def offset_delete(world: World, version: int, variant: int) -> Asked:
    topics = [OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(0)]) for name in NAMED]
    return Asked(
        OffsetDeleteRequest("g-a", topics),
        lambda may: each_partition(may, "READ") if may("DELETE", "GROUP", "g-a") else {(): GROUP},
    )


def _reads_group(key: ApiKey, message: Callable[[int], object]) -> None:
    @rule(key, "READ GROUP")
    def ask(world: World, version: int, variant: int) -> Asked:
        return Asked(message(version), lambda may: whole(may("READ", "GROUP", "g-a"), GROUP))


# Each is refused by the group as well, so that nothing changes: with another code.
_reads_group(ApiKey.JOIN_GROUP, lambda version: JoinGroupRequest("g-a", session_timeout_ms=0))
_reads_group(ApiKey.HEARTBEAT, lambda version: HeartbeatRequest("g-a", 7, "unknown"))
_reads_group(ApiKey.SYNC_GROUP, lambda version: SyncGroupRequest("g-a", 7, "unknown", None, "consumer", "range"))
_reads_group(ApiKey.LEAVE_GROUP, lambda version: LeaveGroupRequest("g-a", "unknown", [MemberIdentity("unknown")]))


@rule(ApiKey.CONSUMER_GROUP_HEARTBEAT, "READ GROUP, DESCRIBE TOPIC", variants=2)
def consumer_group_heartbeat(world: World, version: int, variant: int) -> Asked:
    names = list(TOPICS) if variant else None

    def expected(may: May) -> Places:
        if not may("READ", "GROUP", "g-new"):
            return {(): GROUP}
        return whole(all(may("DESCRIBE", "TOPIC", name) for name in names or ()), TOPIC)

    return Asked(ConsumerGroupHeartbeatRequest("g-new", "unknown", 7, subscribed_topic_names=names), expected)


@rule(ApiKey.CONSUMER_GROUP_DESCRIBE, "DESCRIBE GROUP, DESCRIBE TOPIC", prepare=lambda world: world.keep_member())
def consumer_group_describe(world: World, version: int, variant: int) -> Asked:
    def expected(may: May) -> Places:
        shows = all(may("DESCRIBE", "TOPIC", name) for name in TOPICS)
        with_topics = code(shows, TOPIC) if may("DESCRIBE", "GROUP", "g-c") else GROUP
        return {("g-c",): with_topics, ("g-d",): code(may("DESCRIBE", "GROUP", "g-d"), GROUP)}

    return Asked(ConsumerGroupDescribeRequest(["g-c", "g-d"]), expected)


@rule(ApiKey.DESCRIBE_GROUPS, "DESCRIBE GROUP")
def describe_groups(world: World, version: int, variant: int) -> Asked:
    return Asked(
        DescribeGroupsRequest([*GROUPS, "g-x"]),
        lambda may: {(group,): code(may("DESCRIBE", "GROUP", group), GROUP) for group in (*GROUPS, "g-x")},
    )


@rule(ApiKey.DELETE_GROUPS, "DELETE GROUP")
def delete_groups(world: World, version: int, variant: int) -> Asked:
    groups = ["g-x", "g-y"]
    return Asked(
        DeleteGroupsRequest(groups),
        lambda may: {(group,): code(may("DELETE", "GROUP", group), GROUP) for group in groups},
    )


@rule(ApiKey.LIST_GROUPS, "DESCRIBE GROUP, DESCRIBE CLUSTER", prepare=_commits)
def list_groups(world: World, version: int, variant: int) -> Asked:
    all_groups = [group.group_id for group in world.root.call(ApiKey.LIST_GROUPS, 4, ListGroupsRequest()).groups]
    return Asked(
        ListGroupsRequest(),
        lambda may: {
            (group,): 0 for group in all_groups if of_cluster(may, "DESCRIBE") or may("DESCRIBE", "GROUP", group)
        },
    )


# Transactions


@rule(ApiKey.FIND_COORDINATOR, "DESCRIBE GROUP, DESCRIBE TRANSACTIONAL_ID, CLUSTER_ACTION CLUSTER", variants=3)
def find_coordinator(world: World, version: int, variant: int) -> Asked:
    key_type = 0 if version == 0 else variant
    keys = ["g-a", "i-a", "g:AAAAAAAAAAAAAAAAAAAAAQ:0"]

    def refusal(may: May, key: str) -> int:
        if key_type == 0:
            return code(may("DESCRIBE", "GROUP", key), GROUP)
        if key_type == 1:
            return code(may("DESCRIBE", "TRANSACTIONAL_ID", key), ID)
        return code(version < 6 or of_cluster(may, "CLUSTER_ACTION"), CLUSTER)

    def expected(may: May) -> Places:
        if version < 4:
            told = refusal(may, keys[0])
            return {(): told} if told else {}
        return {(key,): refusal(may, key) for key in keys}

    return Asked(FindCoordinatorRequest(keys[0], key_type, keys), expected)


@rule(ApiKey.INIT_PRODUCER_ID, "WRITE TRANSACTIONAL_ID, IDEMPOTENT_WRITE CLUSTER, WRITE TOPIC", variants=2)
def init_producer_id(world: World, version: int, variant: int) -> Asked:
    def expected(may: May) -> Places:
        if variant:
            return whole(may("WRITE", "TRANSACTIONAL_ID", "i-new"), ID)
        return whole(of_cluster(may, "IDEMPOTENT_WRITE") or may("WRITE", "TOPIC", None), CLUSTER)

    return Asked(InitProducerIdRequest("i-new" if variant else None, 1000), expected)


@rule(ApiKey.ADD_PARTITIONS_TO_TXN, "WRITE TRANSACTIONAL_ID, WRITE TOPIC, CLUSTER_ACTION CLUSTER")
def add_partitions_to_txn(world: World, version: int, variant: int) -> Asked:
    topics = [AddPartitionsToTxnTopic(name, [0]) for name in NAMED]

    def expected(may: May) -> Places:
        if version >= 4:
            if not of_cluster(may, "CLUSTER_ACTION"):
                return {(): CLUSTER}
            return {("i-new", name, 0): 0 for name in NAMED}
        if not may("WRITE", "TRANSACTIONAL_ID", "i-new"):
            return {(name, 0): ID for name in NAMED}
        return each_partition(may, "WRITE")

    transactions = [AddPartitionsToTxnTransaction("i-new", 4711, 0, topics=topics)]
    return Asked(AddPartitionsToTxnRequest(transactions, "i-new", 4711, 0, topics), expected)


@rule(ApiKey.ADD_OFFSETS_TO_TXN, "WRITE TRANSACTIONAL_ID, READ GROUP")
def add_offsets_to_txn(world: World, version: int, variant: int) -> Asked:
    def expected(may: May) -> Places:
        if not may("WRITE", "TRANSACTIONAL_ID", "i-new"):
            return {(): ID}
        return whole(may("READ", "GROUP", "g-a"), GROUP)

    return Asked(AddOffsetsToTxnRequest("i-new", 4711, 0, "g-a"), expected)


@rule(ApiKey.END_TXN, "WRITE TRANSACTIONAL_ID")
def end_txn(world: World, version: int, variant: int) -> Asked:
    return Asked(
        EndTxnRequest("i-new", 4711, 0, True), lambda may: whole(may("WRITE", "TRANSACTIONAL_ID", "i-new"), ID)
    )


@rule(ApiKey.WRITE_TXN_MARKERS, "CLUSTER_ACTION CLUSTER, ALTER CLUSTER")
def write_txn_markers(world: World, version: int, variant: int) -> Asked:
    marker = WritableTxnMarker(-1, 0, False, [WritableTxnMarkerTopic(name, [0]) for name in NAMED])
    return Asked(
        WriteTxnMarkersRequest([marker]),
        lambda may: {
            (-1, name, 0): code(of_cluster(may, "CLUSTER_ACTION") or of_cluster(may, "ALTER"), CLUSTER)
            for name in NAMED
        },
    )


@rule(ApiKey.TXN_OFFSET_COMMIT, "WRITE TRANSACTIONAL_ID, READ GROUP, READ TOPIC")
def txn_offset_commit(world: World, version: int, variant: int) -> Asked:
    partitions = [TxnOffsetCommitRequestPartition(0, 0, committed_metadata="")]
    topics = [TxnOffsetCommitRequestTopic(name, partitions) for name in NAMED]

    def expected(may: May) -> Places:
        if not may("WRITE", "TRANSACTIONAL_ID", "i-new"):
            return {(name, 0): ID for name in NAMED}
        if not may("READ", "GROUP", "g-a"):
            return {(name, 0): GROUP for name in NAMED}
        return each_partition(may, "READ")

    return Asked(TxnOffsetCommitRequest("i-new", "g-a", 4711, 0, topics=topics), expected)


@rule(ApiKey.DESCRIBE_TRANSACTIONS, "DESCRIBE TRANSACTIONAL_ID, DESCRIBE TOPIC")
def describe_transactions(world: World, version: int, variant: int) -> Asked:
    def expected(may: May) -> Places:
        told: Places = {}
        for name in (*IDS, "i-x"):
            allowed = may("DESCRIBE", "TRANSACTIONAL_ID", name)
            place: Place = (name,)
            told[place] = code(allowed, ID)
            if allowed and name in IDS:
                told |= {(name, topic): 0 for topic in TOPICS if may("DESCRIBE", "TOPIC", topic)}
        return told

    return Asked(DescribeTransactionsRequest([*IDS, "i-x"]), expected)


@rule(ApiKey.LIST_TRANSACTIONS, "DESCRIBE TRANSACTIONAL_ID")
def list_transactions(world: World, version: int, variant: int) -> Asked:
    listed = world.root.call(ApiKey.LIST_TRANSACTIONS, 1, ListTransactionsRequest()).transaction_states
    return Asked(
        ListTransactionsRequest(),
        lambda may: {
            (state.transactional_id,): 0
            for state in listed
            if may("DESCRIBE", "TRANSACTIONAL_ID", state.transactional_id)
        },
    )


# The cluster

RESOURCES: Final = ((2, "t-a"), (2, "t-x"), (4, "1"), (8, "1"), (16, "m"), (32, "g-a"))


def _configs(may: May, operation: str) -> Places:
    told: Places = {}
    for kind, name in RESOURCES:
        if kind == 2:
            told[(kind, name)] = code(may(operation, "TOPIC", name), TOPIC)
        elif kind == 32:
            told[(kind, name)] = code(may(operation, "GROUP", name), GROUP)
        else:
            told[(kind, name)] = code(of_cluster(may, operation), CLUSTER)
    return told


@rule(ApiKey.DESCRIBE_CONFIGS, "DESCRIBE_CONFIGS TOPIC, DESCRIBE_CONFIGS GROUP, DESCRIBE_CONFIGS CLUSTER")
def describe_configs(world: World, version: int, variant: int) -> Asked:
    resources = [DescribeConfigsResource(kind, name, []) for kind, name in RESOURCES]
    return Asked(DescribeConfigsRequest(resources), lambda may: _configs(may, "DESCRIBE_CONFIGS"))


@rule(ApiKey.ALTER_CONFIGS, "ALTER_CONFIGS TOPIC, ALTER_CONFIGS GROUP, ALTER_CONFIGS CLUSTER")
def alter_configs(world: World, version: int, variant: int) -> Asked:
    resources = [legacy.AlterConfigsResource(kind, name) for kind, name in RESOURCES]
    message = legacy.AlterConfigsRequest(resources, validate_only=True)
    # Loggers it never alters: that is said before any right is asked for.
    return Asked(message, lambda may: _configs(may, "ALTER_CONFIGS") | {(8, "1"): 0})


@rule(ApiKey.INCREMENTAL_ALTER_CONFIGS, "ALTER_CONFIGS TOPIC, ALTER_CONFIGS GROUP, ALTER_CONFIGS CLUSTER")
def incremental_alter_configs(world: World, version: int, variant: int) -> Asked:
    resources = [incremental.AlterConfigsResource(kind, name) for kind, name in RESOURCES]
    message = incremental.IncrementalAlterConfigsRequest(resources, validate_only=True)
    return Asked(message, lambda may: _configs(may, "ALTER_CONFIGS"))


@rule(ApiKey.ELECT_LEADERS, "ALTER CLUSTER")
def elect_leaders(world: World, version: int, variant: int) -> Asked:
    def expected(may: May) -> Places:
        told = code(of_cluster(may, "ALTER"), CLUSTER)
        places: Places = {(name, 0): told for name in NAMED}
        return places | {(): told} if told and version >= 1 else places

    return Asked(ElectLeadersRequest(0, [LedPartitions(name, [0]) for name in NAMED]), expected)


@rule(ApiKey.DESCRIBE_LOG_DIRS, "DESCRIBE CLUSTER")
def describe_log_dirs(world: World, version: int, variant: int) -> Asked:
    def expected(may: May) -> Places:
        if of_cluster(may, "DESCRIBE"):
            return {("log dir",): 0}
        return {(): CLUSTER} if version >= 3 else {}

    return Asked(DescribeLogDirsRequest([]), expected)


def _of_cluster(key: ApiKey, operation: str, message: Callable[[], object], *place: str) -> None:
    @rule(key, f"{operation} CLUSTER")
    def ask(world: World, version: int, variant: int) -> Asked:
        def expected(may: May) -> Places:
            told = code(of_cluster(may, operation), CLUSTER)
            return {place: told} if told or place else {}

        return Asked(message(), expected)


_of_cluster(ApiKey.DESCRIBE_ACLS, "DESCRIBE", lambda: DescribeAclsRequest(1, None, 1, None, None, 1, 1))
_of_cluster(ApiKey.CREATE_ACLS, "ALTER", lambda: CreateAclsRequest([AclCreation(1, "", 3, "User:x", "*", 3, 3)]))
_of_cluster(
    ApiKey.DELETE_ACLS, "ALTER", lambda: DeleteAclsRequest([DeleteAclsFilter(2, "nothing", 3, "User:x", None, 1, 1)])
)
_of_cluster(ApiKey.DESCRIBE_CLIENT_QUOTAS, "DESCRIBE_CONFIGS", lambda: DescribeClientQuotasRequest([], False))
_of_cluster(
    ApiKey.ALTER_CLIENT_QUOTAS,
    "ALTER_CONFIGS",
    lambda: AlterClientQuotasRequest([EntryData([EntityData("user", "x")], [OpData("odd", 1.0)])], True),
)
_of_cluster(
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    "ALTER",
    lambda: AlterUserScramCredentialsRequest([ScramCredentialDeletion("unknown", 1)], []),
    "unknown",
)
_of_cluster(ApiKey.ALTER_PARTITION_REASSIGNMENTS, "ALTER", AlterPartitionReassignmentsRequest)
_of_cluster(ApiKey.LIST_PARTITION_REASSIGNMENTS, "DESCRIBE", lambda: ListPartitionReassignmentsRequest(topics=[]))
_of_cluster(
    ApiKey.UPDATE_FEATURES,
    "ALTER",
    lambda: UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("unknown", 1, False, 1)], validate_only=True),
)
_of_cluster(ApiKey.LIST_CONFIG_RESOURCES, "DESCRIBE_CONFIGS", ListConfigResourcesRequest)


@rule(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, "DESCRIBE CLUSTER")
def describe_user_scram_credentials(world: World, version: int, variant: int) -> Asked:
    # Of a user, and not of all: to that a broker of Apache Kafka never answers a client that it refuses.
    return Asked(
        DescribeUserScramCredentialsRequest([UserName("unknown")]),
        lambda may: {("unknown",): 0} if of_cluster(may, "DESCRIBE") else {(): CLUSTER},
    )


def _free(key: ApiKey, message: object) -> None:
    @rule(key)
    def ask(world: World, version: int, variant: int) -> Asked:
        return Asked(message, lambda may: {})


_free(ApiKey.API_VERSIONS, ApiVersionsRequest("a", "1"))
_free(ApiKey.SASL_HANDSHAKE, SaslHandshakeRequest("PLAIN"))
_free(ApiKey.SASL_AUTHENTICATE, SaslAuthenticateRequest(b""))
_free(ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest(True))

VERSIONS: Final = [
    (key, version) for key in RULES for version in range(APIS[key].min_version, APIS[key].max_version + 1)
]
