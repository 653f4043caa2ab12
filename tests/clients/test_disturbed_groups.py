"""Groups of real clients, one process each, over 24 partitions: members come, go, are killed and are stopped.

``make campaign-groups`` runs it longer, with up to twelve members in every mix.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupState, Producer
from confluent_kafka.admin import AdminClient

from semel.errors import ErrorCode
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.consumer_protocol import ConsumerProtocolAssignment, encode_assignment, grouped
from semel.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from semel.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.broker.group_client import METADATA, join_request
from tests.broker.raw_client import RawClient
from tests.clients.waiting import eventually
from tools.brokers import semel
from tools.committed_watch import CommittedWatch
from tools.feeder import Feeder
from tools.group_run import PARTITIONS, SETTINGS, Fault, Plan, disturb
from tools.load import create_topic
from tools.member_process import (
    AIOKAFKA,
    CONFLUENT,
    JAVA,
    KAFKA_PYTHON,
    OWN,
    PYTHON_LIBRARIES,
    Library,
    MemberProcess,
    MemberReports,
)
from tools.members.role import CONSUMER_PROTOCOL, HEARTBEAT_INTERVAL_MS, MAX_POLL_INTERVAL_MS, Role
from tools.patience import BEYOND_PATIENCE_MS, PATIENCE_S, wait_until
from tools.run_result import to_json
from tools.server import Server, running
from tools.single_requests import committed_offsets

NEEDS_JAVA = [pytest.mark.kafka, pytest.mark.needs("kafka", "javac")]
PAUSE_S = 0.2
"""Between two rounds of records. The campaign sends four times as many, and that is most of what it costs."""
DISTURBED = (Fault.KILL, Fault.PAUSE, Fault.LEAVE, Fault.JOIN)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with running(semel(tmp_path / "broker", settings=SETTINGS)) as server:
        yield server


@pytest.fixture
def join(server: Server, tmp_path: Path) -> Iterator[Callable[..., MemberProcess]]:
    """A function that starts a member of the group ``readers`` of the topic ``orders``.

    Its session is as long as may be: on a busy machine a member may not be heard for seconds, and is to stay one.
    """
    create_topic(server.bootstrap_servers, "orders", partitions=PARTITIONS)
    started: list[MemberProcess] = []

    def start(library: Library, protocol: str, session_timeout_ms: int = MAX_POLL_INTERVAL_MS) -> MemberProcess:
        name = f"{library.name}-{len(started)}"
        role = Role(server.bootstrap_servers, "orders", "readers", name, protocol, session_timeout_ms)
        started.append(MemberProcess(library, role, tmp_path / "members.txt"))
        return started[-1]

    yield start
    for member in started:
        member.kill()


def assert_passes(server: Server, plans: list[Plan], folder: Path, faults: tuple[Fault, ...], seed: int = 1) -> None:
    verdict = disturb(server, plans, folder, seed=seed, faults=faults, stuck_s_max=PATIENCE_S, pause_s=PAUSE_S)
    assert verdict.passed, to_json(verdict)
    assert verdict.looks > 10


def test_disturbed_members_of_each_library_read_everything_and_copy_it_exactly_once(
    server: Server, tmp_path: Path
) -> None:
    """Scenarios 53 and 54 with real processes: a member that is stopped past its session comes back as a zombie."""
    plans = [Plan(library.name, (library,), "range", 2, library.has_transactions) for library in PYTHON_LIBRARIES]
    assert_passes(server, plans, tmp_path, (Fault.KILL, Fault.PAUSE))


def test_the_same_where_the_broker_assigns(server: Server, tmp_path: Path) -> None:
    """KIP-848: scenarios 53 and 54."""
    plans = [
        Plan(library.name, (library,), CONSUMER_PROTOCOL, 2, is_transactional=True) for library in (OWN, CONFLUENT)
    ]
    assert_passes(server, plans, tmp_path, DISTURBED)


def test_one_group_of_twelve_members_of_four_libraries(server: Server, tmp_path: Path) -> None:
    assert_passes(
        server, [Plan("mixed", PYTHON_LIBRARIES, "roundrobin", 12)], tmp_path, (Fault.KILL, Fault.LEAVE, Fault.JOIN)
    )


def test_kills_of_the_broker_under_rebalances_take_no_offset_back_and_leave_no_group_stuck(
    server: Server, tmp_path: Path
) -> None:
    plans = [
        Plan("copies", (OWN, CONFLUENT), "range", 2, is_transactional=True),
        Plan("kip-848", (CONFLUENT, OWN), CONSUMER_PROTOCOL, 2),
        Plan("roundrobin", (AIOKAFKA, KAFKA_PYTHON), "roundrobin", 2),
    ]
    assert_passes(server, plans, tmp_path, (Fault.KILL_BROKER,) * 2)


@pytest.mark.parametrize(
    "protocol", [pytest.param("range", marks=NEEDS_JAVA), pytest.param(CONSUMER_PROTOCOL, marks=NEEDS_JAVA)]
)
def test_disturbed_java_members_copy_exactly_once(server: Server, tmp_path: Path, protocol: str) -> None:
    assert_passes(server, [Plan("java", (JAVA,), protocol, 2, is_transactional=True)], tmp_path, DISTURBED)


@pytest.mark.parametrize(
    ("protocol", "libraries"),
    [
        pytest.param("range", (JAVA, *PYTHON_LIBRARIES), marks=NEEDS_JAVA),
        pytest.param("cooperative-sticky", (JAVA, OWN, CONFLUENT), marks=NEEDS_JAVA),
        pytest.param(CONSUMER_PROTOCOL, (JAVA, OWN, CONFLUENT), marks=NEEDS_JAVA),
    ],
    ids=["range", "cooperative-sticky", "consumer"],
)
def test_java_members_share_a_group_with_the_others(
    server: Server, tmp_path: Path, protocol: str, libraries: tuple[Library, ...]
) -> None:
    plan = Plan("mixed", libraries, protocol, len(libraries))
    assert_passes(server, [plan], tmp_path, (Fault.KILL, Fault.LEAVE, Fault.KILL_BROKER))


def test_members_without_a_common_assignor_are_told_so(join: Callable[..., MemberProcess]) -> None:
    join(CONFLUENT, "range").wait_until_assigned()
    refused = [join(library, "roundrobin") for library in PYTHON_LIBRARIES]
    for member in refused:
        eventually(True, lambda member=member: any(map(is_no_common_assignor, member.reports.errors)))  # type: ignore[misc]
        assert not member.reports.assigned


# kafka-python's poll returns no records while its JoinGroup is unanswered, so it says nothing about the broker here.
@pytest.mark.parametrize("library", [OWN, CONFLUENT], ids=str)
def test_a_cooperative_rebalance_does_not_stop_the_partitions_that_stay(
    server: Server, join: Callable[..., MemberProcess], library: Library
) -> None:
    """A rebalance waits for a member that is stopped; the member that stays reads meanwhile."""
    feeder = Feeder(server.bootstrap_servers, "orders", partitions=PARTITIONS)
    feeder.start()
    stays = join(library, "cooperative-sticky")
    stays.wait_until_assigned()
    stopped = join(library, "cooperative-sticky")
    stopped.wait_until_assigned()
    eventually(12, lambda: len(stays.reports.assigned))
    stopped.pause()
    came = join(library, "cooperative-sticky")
    eventually(ConsumerGroupState.PREPARING_REBALANCING, lambda: state_of_readers(server))
    held = set(stays.reports.assigned)
    revoked, read = len(stays.reports.revoked), len(stays.reports.read)

    # More than what may have been fetched before, whatever time that takes: the rebalance goes on until it is resumed.
    wait_until(lambda: len(stays.reports.read) - read > len(held), "it stopped reading")

    assert not came.reports.assigned, "the rebalance has not waited for the member that is stopped"
    assert not stays.reports.revoked[revoked:], "it gave partitions up before the rebalance was over"
    assert {partition for partition, _ in stays.reports.read[read:]} <= held, "it read what was not its own"
    stopped.resume()
    came.wait_until_assigned()
    assert not [given_up for given_up in stays.reports.revoked[revoked:] if given_up == held], "it gave up everything"
    feeder.finish()


@pytest.mark.parametrize("library", [OWN, CONFLUENT, pytest.param(JAVA, marks=NEEDS_JAVA)], ids=str)
def test_a_member_commits_again_what_was_refused_in_a_rebalance_that_left_it_its_partitions(
    server: Server, join: Callable[..., MemberProcess], library: Library
) -> None:
    """A cooperative member goes on from where it is, and no other record may come after the one it could not commit."""
    committed_offsets(server.bootstrap_servers, "readers", "orders", 1)  # Once the coordinator can be asked.
    producer = Producer({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})
    with RawClient(server.launch.port) as leader, RawClient(server.launch.port) as newcomer:
        joined = joined_as(leader, new_member_id(leader), members=1)
        assign_all(leader, joined, to=joined.member_id)
        member = join(library, "cooperative-sticky")
        eventually(ConsumerGroupState.PREPARING_REBALANCING, lambda: state_of_readers(server))
        joined = joined_as(leader, joined.member_id, members=2)
        (member_id,) = {one.member_id for one in joined.members} - {joined.member_id}
        assign_all(leader, joined, to=member_id)
        member.wait_until_assigned()

        # librdkafka and Java: refused once the member has joined, which is not before its next heartbeat.
        newcomer.send(ApiKey.JOIN_GROUP, 9, request_to_join(new_member_id(newcomer)))
        records = 1
        called_s = time.monotonic() + 10 * HEARTBEAT_INTERVAL_MS / 1000
        while is_committed_soon(producer, member, 0, records) and time.monotonic() < called_s:
            records += 1
        # Our own: refused until the leader has assigned.
        joined = joined_as(leader, joined.member_id, members=3)
        is_committed_soon(producer, member, 1, 1)
        assign_all(leader, joined, to=member_id)

        eventually([records, 1], lambda: committed_offsets(server.bootstrap_servers, "readers", "orders", 2))
        assert len(member.reports.read) == records + 1, "it has read something again"


def is_committed_soon(producer: Producer, member: MemberProcess, partition: int, records: int) -> bool:
    """Send one more record. On a busy machine a commit may be late: then the test shows nothing, and does not fail."""
    producer.produce("orders", b"a record", partition=partition)
    assert producer.flush(PATIENCE_S) == 0
    eventually(records, lambda: sum(read == partition for read, _ in member.reports.read))
    soon_s = time.monotonic() + 1
    while member.reports.committed.get(partition) != records and time.monotonic() < soon_s:
        time.sleep(0.01)
    return member.reports.committed.get(partition) == records


def request_to_join(member_id: str) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("cooperative-sticky", METADATA)]
    return join_request("readers", member_id, protocols=protocols, rebalance_timeout_ms=BEYOND_PATIENCE_MS)


def new_member_id(client: RawClient) -> str:
    answer = client.call(ApiKey.JOIN_GROUP, 9, request_to_join(""))
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    return str(answer.member_id)


def joined_as(client: RawClient, member_id: str, *, members: int) -> JoinGroupResponse:
    """The answer to the leader, once so many have joined. The rebalance is over when it has assigned."""
    answer = client.call(ApiKey.JOIN_GROUP, 9, request_to_join(member_id))
    assert isinstance(answer, JoinGroupResponse)
    assert (answer.error_code, answer.leader, len(answer.members)) == (ErrorCode.NONE, member_id, members)
    return answer


def assign_all(leader: RawClient, joined: JoinGroupResponse, *, to: str) -> None:
    everything = ConsumerProtocolAssignment(grouped(TopicPartition("orders", number) for number in range(PARTITIONS)))
    request = SyncGroupRequest(
        "readers",
        joined.generation_id,
        joined.member_id,
        None,
        "consumer",
        "cooperative-sticky",
        [SyncGroupRequestAssignment(to, encode_assignment(everything))],
    )
    assert leader.call(ApiKey.SYNC_GROUP, 5, request).error_code == ErrorCode.NONE


def state_of_readers(server: Server) -> ConsumerGroupState:
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})
    state: ConsumerGroupState = admin.describe_consumer_groups(["readers"])["readers"].result().state
    return state


def is_no_common_assignor(error: str) -> bool:
    """As each library words INCONSISTENT_GROUP_PROTOCOL."""
    flat = error.lower().replace("_", "").replace(" ", "")
    return "inconsistentgroupprotocol" in flat


def test_what_a_member_tells_is_understood() -> None:
    reports = MemberReports()
    for line in (
        "assigned 0 1 2\n",
        "read 0:5 2:7\n",
        "committed 0:6\n",
        "revoked 1\n",
        "committed 0:7 2:8\n",
        "error X y\n",
    ):
        reports.add_line(line)
    assert reports == MemberReports({0, 2}, [{1}], [(0, 5), (2, 7)], {0: 7, 2: 8}, ["X y"])


def test_offsets_that_go_back_or_behind_what_was_acknowledged_are_told() -> None:
    watch = CommittedWatch("nowhere:1", "readers", "orders", 2, dict)
    for partition, offset, acknowledged in ((0, 5, {}), (0, 4, {}), (0, 6, {0: 6}), (1, 2, {1: 3})):
        watch.compare(partition, offset, acknowledged)
    assert watch.anomalies == [
        "readers: the offset of partition 0 went from 5 to 4",
        "readers: the offset of partition 1 went from 3 to 2",
    ]
