"""What a pipeline asks a cluster for: topics that are named, found by a pattern, internal or refused. Without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from semel.admin import AclBinding, AclOperation, AclResourceType
from semel.blocking import Admin, Producer
from semel.client.values import ProducerIdentity
from semel.errors import AbortableError, AuthorizationFailed
from semel.spark.checkpoint import Checkpoint
from semel.spark.cluster import Cluster
from semel.spark.plan import QueryPlan
from semel.spark.refusals import Refused, check_sink_topics
from semel.spark.sink.row_partitioning import BadRow, RowPartitioner
from semel.spark.sink.sink import Sink, WriteJob, no_step_hook
from semel.spark.source.options import SourceOptions, Subscription
from semel.spark.source.reading import read_splits
from semel.spark.source.splits import Split
from semel.spark.starting import Start
from semel.testing import Broker
from semel.types import CONSUMER_OFFSETS_TOPIC, TopicPartition
from tests.spark.topics import create


class NoCheckpoint(Checkpoint):
    """A location at which Spark has written nothing."""

    def _read(self, name: str) -> str | None:
        return None

    def _modified_ms(self, name: str) -> int:
        raise AssertionError(name)

    def _names(self, folder: str) -> list[str]:
        return []


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    """A broker with a user ``job``, who may read and write the topic ``in`` and does not know of ``secret``."""
    rights = [
        AclBinding(AclResourceType.TOPIC, "in", "User:job", operation)
        for operation in (AclOperation.READ, AclOperation.WRITE)
    ]
    users = {"admin": "password-of-the-admin", "job": "password-of-the-job"}
    with Broker(num_partitions=2, users=users, acls=rights, super_users="User:admin") as running:
        with Producer(bootstrap_servers=running.bootstrap_servers, **running.client_security) as admin:
            admin.partitions_for("in")
            admin.partitions_for("secret")
        yield running


@pytest.fixture
def offsets(broker: Broker) -> None:
    """A topic ``in``, and an offset that the group ``jobs`` has committed for it."""
    create(broker, "in")
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.groups.alter_offsets("jobs", {("in", 0): 7}).all()


def test_an_internal_topic_is_read_if_it_is_named_and_no_pattern_means_it(broker: Broker, offsets: None) -> None:
    with Cluster(bootstrap_servers=broker.bootstrap_servers) as cluster:
        partitions = Subscription(topics=(CONSUMER_OFFSETS_TOPIC,)).partitions(cluster)
        assert len(partitions) == 50
        splits = [Split(place, 0, end) for place, end in cluster.end_offsets(partitions).items() if end]
        read = read_splits(splits, cluster, include_headers=False, fail_on_data_loss=True)
        assert any(b"jobs" in (row["key"] or b"") for _, rows in read for row in rows.to_pylist())
        assigned = (TopicPartition(CONSUMER_OFFSETS_TOPIC, 49),)
        assert Subscription(assigned=assigned).partitions(cluster) == list(assigned)
        with pytest.raises(LookupError, match="there is no partition __consumer_offsets-50 to read from"):
            Subscription(assigned=(TopicPartition(CONSUMER_OFFSETS_TOPIC, 50),)).partitions(cluster)
        assert {topic for topic, _ in Subscription(pattern=".*").partitions(cluster)} == {"in"}


def test_a_sink_is_no_internal_topic(broker: Broker, offsets: None) -> None:
    with Cluster(bootstrap_servers=broker.bootstrap_servers) as cluster:
        check_sink_topics(["in"], cluster)
        with pytest.raises(Refused, match="'__consumer_offsets' is an internal topic: only brokers write to it"):
            check_sink_topics(["in", CONSUMER_OFFSETS_TOPIC], cluster)


@pytest.mark.parametrize(
    ("user", "topic", "said"),
    [
        ("job", "secret", "TOPIC_AUTHORIZATION_FAILED: this user may not describe topic 'secret': allow it READ"),
        ("admin", "a b", "INVALID_TOPIC_EXCEPTION: Metadata of topic 'a b': this is no name for a topic"),
    ],
)
def test_a_topic_that_is_refused_is_not_said_to_be_missing(secured: Broker, user: str, topic: str, said: str) -> None:
    security = {"bootstrap_servers": secured.bootstrap_servers, **secured.client_security_of(user)}
    with Cluster(**security) as cluster:
        with pytest.raises(Refused, match=f"^{said}"):
            check_sink_topics([topic], cluster)
        for subscription in (Subscription(topics=("in", topic)), Subscription(assigned=(TopicPartition(topic, 0),))):
            with pytest.raises(AbortableError, match=f"^{said}"):
                subscription.partitions(cluster)
        found = cluster.look_up(["in", topic])
        assert (found.partition_counts, found.missing, list(found.refused)) == ({"in": 2}, (), [topic])


def test_a_start_refuses_a_source_whose_topic_may_not_be_described(secured: Broker) -> None:
    security = {"bootstrap_servers": secured.bootstrap_servers, **secured.client_security_of("job")}
    options = {f"kafka.{name.replace('_', '.')}": str(value) for name, value in security.items()}
    source = SourceOptions.parse({**options, "subscribe": "secret", "kafka.group.id": "jobs"}, is_streaming=True)
    plan = QueryPlan((source,), (), is_stateful=False)
    sink = Sink(
        {**security, "transactional_id": "jobs", "transaction_timeout_ms": 1_000}, "in", None, None, no_step_hook
    )
    start = Start(plan, sink, "nowhere", ["value"], 1, None, 1)
    with Cluster(**security) as cluster, pytest.raises(Refused, match="may not describe topic 'secret'"):
        start.check(cluster, NoCheckpoint("nowhere"))


def test_a_row_for_a_topic_that_may_not_be_described_says_so(secured: Broker) -> None:
    settings = {"bootstrap_servers": secured.bootstrap_servers, "transactional_id": "jobs"}
    sink = Sink({**settings, **secured.client_security_of("job")}, None, None, None, no_step_hook)
    job = WriteJob(sink, ProducerIdentity(1, 0, 2), 0, 0, 1, {})
    row = {"topic": ["secret"], "key": [b"k"], "value": [b"v"], "task": [1]}
    with pytest.raises(BadRow, match="cannot be written: TOPIC_AUTHORIZATION_FAILED: this user may not describe"):
        list(RowPartitioner(job).partitioned(iter([pa.RecordBatch.from_pydict(row)])))


def test_a_login_that_is_refused_says_nothing_about_topics(secured: Broker) -> None:
    wrong = {**secured.client_security_of("job"), "sasl_password": "wrong"}
    with (
        Cluster(bootstrap_servers=secured.bootstrap_servers, **wrong) as cluster,
        pytest.raises(AuthorizationFailed, match="SASL_AUTHENTICATION_FAILED"),
    ):
        cluster.topics(["in"])
