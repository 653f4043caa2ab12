from __future__ import annotations

import pytest

from semel import blocking
from semel.errors import ErrorCode
from semel.log.timestamp_lookup import STEP_EFFORT
from semel.testing import Broker, Cluster
from semel.wire.apis import APIS, ApiKey
from semel.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from semel.wire.messages.delete_topics import DeleteTopicsRequest
from semel.wire.messages.list_offsets import (
    DEBUGGING_REPLICA_ID,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from semel.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from semel.wire.records import Record, build_batch
from tests.broker.raw_client import RawClient, batch
from tools.patience import wait_until

VERSIONS = range(APIS[ApiKey.LIST_OFFSETS].min_version, APIS[ApiKey.LIST_OFFSETS].max_version + 1)
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, PENDING_UPLOAD: 11}

TIME = 1_700_000_000_000


def ask(
    client: RawClient, topic: str, timestamp: int, *, version: int = 11, partition: int = 0, epoch: int | None = None,
    isolation_level: int = 0, replica_id: int | None = None,
) -> ListOffsetsPartitionResponse:  # fmt: skip
    asked = ListOffsetsPartition(partition, epoch, timestamp)
    request = ListOffsetsRequest(
        replica_id=replica_id, isolation_level=isolation_level, topics=[ListOffsetsTopic(topic, [asked])]
    )
    ((answer,),) = (found.partitions for found in client.call(ApiKey.LIST_OFFSETS, version, request).topics)
    assert isinstance(answer, ListOffsetsPartitionResponse)
    return answer


def summary(answer: ListOffsetsPartitionResponse) -> tuple[int, int, int, int]:
    return answer.error_code, answer.offset, answer.timestamp, answer.leader_epoch


def delete_before(client: RawClient, topic: str, offset: int) -> None:
    doomed = DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, offset)])
    client.call(ApiKey.DELETE_RECORDS, 2, DeleteRecordsRequest(topics=[doomed], timeout_ms=1000))


@pytest.fixture
def timed(client: RawClient, topic: str) -> str:
    """Offsets 0-2 at TIME, +1, +2; 3 at +100; 4 at +50."""
    client.produce(topic, batch(b"a", b"b", b"c", timestamp=TIME))
    client.produce(topic, batch(b"d", timestamp=TIME + 100))
    client.produce(topic, batch(b"e", timestamp=TIME + 50))
    return topic


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_knows_the_special_times_it_should(client: RawClient, timed: str, version: int) -> None:
    epoch = 0 if version >= 4 else None
    expected = {
        LATEST: (0, 5, None, epoch),
        EARLIEST: (0, 0, None, epoch),
        MAX_TIMESTAMP: (0, 3, TIME + 100, epoch),
        EARLIEST_LOCAL: (0, 0, None, epoch),
        LATEST_TIERED: (0, None, None, None),
        PENDING_UPLOAD: (0, None, None, None),
    }
    for special, found in expected.items():
        unsupported = (ErrorCode.UNSUPPORTED_VERSION, None, None, None)
        known = found if version >= SINCE[special] else unsupported
        assert summary(ask(client, timed, special, version=version)) == known


@pytest.mark.parametrize(
    ("timestamp", "offset", "found"),
    [
        (0, 0, TIME),
        (TIME, 0, TIME),
        (TIME + 1, 1, TIME + 1),
        (TIME + 3, 3, TIME + 100),
        (TIME + 100, 3, TIME + 100),
        (TIME + 101, None, None),
    ],
)
def test_the_first_record_at_or_after_a_time_is_found(
    client: RawClient, timed: str, timestamp: int, offset: int, found: int
) -> None:
    assert summary(ask(client, timed, timestamp)) == (0, offset, found, None if offset is None else 0)


def test_a_search_that_has_to_look_at_very_many_records_is_served_in_slices(broker: Broker, topic: str) -> None:
    """The only record with the time in the header of the first batch was deleted."""
    latest = Record(0, TIME + 1000, b"key", b"a")
    earlier = [Record(number, TIME, b"key", b"b") for number in range(1, 3 * STEP_EFFORT + 1)]
    with RawClient(broker.port) as client:
        client.produce(topic, bytes(build_batch([latest, *earlier])))
        delete_before(client, topic, 1)
        for special in (TIME + 1000, MAX_TIMESTAMP):
            assert summary(ask(client, topic, special)) == (0, None, None, None)
        client.produce(topic, batch(b"c", timestamp=TIME + 1000))
        found = (0, 3 * STEP_EFFORT + 1, TIME + 1000, 0)
        for special in (TIME + 1000, MAX_TIMESTAMP):
            assert summary(ask(client, topic, special)) == found
        client.call(ApiKey.DELETE_TOPICS, 1, DeleteTopicsRequest(topic_names=[topic], timeout_ms=1000))
        assert ask(client, topic, TIME + 1000).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_unknown_special_time_is_refused(client: RawClient, timed: str) -> None:
    assert ask(client, timed, -7).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_an_empty_log_begins_and_ends_at_0_and_has_no_largest_timestamp(client: RawClient, topic: str) -> None:
    assert ask(client, topic, EARLIEST).offset == 0
    assert ask(client, topic, LATEST).offset == 0
    assert summary(ask(client, topic, MAX_TIMESTAMP)) == (0, None, None, None)


def test_earliest_follows_deleted_records(client: RawClient, timed: str) -> None:
    delete_before(client, timed, 4)

    assert ask(client, timed, EARLIEST).offset == 4
    assert summary(ask(client, timed, 0)) == (0, 4, TIME + 50, 0)


@pytest.mark.parametrize(
    ("replica_id", "latest"), [(None, (0, 0)), (3, (0, 0)), (DEBUGGING_REPLICA_ID, (1, 1))], ids=["client", "3", "-2"]
)
def test_only_a_debugging_replica_is_told_the_log_end_and_no_record_there(
    replica_id: int | None, latest: tuple[int, int]
) -> None:
    """A record that the other replica has not copied, as far as the leader knows."""
    with Cluster(brokers=2, replica_lag_time_max_ms=3_600_000) as cluster:
        with blocking.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.topics.create("copied", partitions=1, replication_factor=2)
        wait_until(lambda: cluster.leader("copied", 0) is not None)
        leader = cluster.brokers[cluster.leader("copied", 0) or 0]
        leader.faults.fail("Fetch", "UNKNOWN_SERVER_ERROR", times=1_000_000)
        with RawClient(leader.port) as client:
            assert client.produce("copied", batch(b"a", timestamp=TIME), acks=1).error_code == 0
            asked = [
                ask(client, "copied", LATEST, isolation_level=isolation_level, replica_id=replica_id).offset
                for isolation_level in (0, 1)
            ]
            found = ask(client, "copied", 0, replica_id=replica_id)
        leader.faults.clear()
    assert tuple(asked) == latest
    assert found.offset is None


@pytest.mark.parametrize(
    ("epoch", "code"), [(0, 0), (5, ErrorCode.UNKNOWN_LEADER_EPOCH), (-3, ErrorCode.FENCED_LEADER_EPOCH)]
)
def test_the_leader_epoch_is_checked(client: RawClient, timed: str, epoch: int, code: int) -> None:
    assert ask(client, timed, LATEST, epoch=epoch).error_code == code


def test_an_unknown_partition_is_an_error_of_its_own(client: RawClient, timed: str) -> None:
    assert ask(client, timed, LATEST, partition=9).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ask(client, "absent", LATEST).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_partition_asked_for_twice_is_refused_both_times(client: RawClient, timed: str) -> None:
    twice = [ListOffsetsPartition(0, None, LATEST), ListOffsetsPartition(0, None, EARLIEST)]
    request = ListOffsetsRequest(replica_id=None, topics=[ListOffsetsTopic(timed, twice)])

    ((first, second),) = (found.partitions for found in client.call(ApiKey.LIST_OFFSETS, 7, request).topics)

    assert first.error_code == second.error_code == ErrorCode.INVALID_REQUEST


# OffsetForLeaderEpoch


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.parametrize(
    ("current", "asked", "expected"),
    [
        (None, 0, (0, 0, 5)),
        (0, 0, (0, 0, 5)),
        (None, 1, (0, None, None)),
        (7, 0, (ErrorCode.UNKNOWN_LEADER_EPOCH, None, None)),
        (-4, 0, (ErrorCode.FENCED_LEADER_EPOCH, None, None)),
    ],
)
def test_where_an_epoch_ends(
    client: RawClient, timed: str, version: int, current: int, asked: int, expected: tuple[int, int, int]
) -> None:
    topics = [OffsetForLeaderTopic(timed, [OffsetForLeaderPartition(0, current, asked)])]
    response = client.call(
        ApiKey.OFFSET_FOR_LEADER_EPOCH, version, OffsetForLeaderEpochRequest(replica_id=None, topics=topics)
    )

    ((answer,),) = (found.partitions for found in response.topics)
    assert (answer.error_code, answer.leader_epoch, answer.end_offset) == expected


def test_the_epoch_of_an_unknown_partition_is_an_error(client: RawClient) -> None:
    topics = [OffsetForLeaderTopic("absent", [OffsetForLeaderPartition(0, None, 0)])]
    response = client.call(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, OffsetForLeaderEpochRequest(topics=topics))

    ((answer,),) = (found.partitions for found in response.topics)
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
