"""Transactions as three client libraries run them: commit, abort, fencing, timeout, offsets, both kinds of readers.

No library in Python speaks transactions V2 yet; these run the older protocol, with the broker verifying every
partition.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TypeAlias

import pytest
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.clients.libraries import Record
from tests.clients.libraries.confluent import Confluent as PlainConfluent
from tests.clients.transactional import Fenced, Isolation, TransactionalLibrary, TransactionalProducer
from tests.clients.transactional.aio import Aiokafka
from tests.clients.transactional.confluent import Confluent
from tests.clients.transactional.kafka_python import KafkaPython
from tests.clients.waiting import eventually
from tools.patience import PATIENCE_S
from tools.server import Server

LIBRARIES: tuple[TransactionalLibrary, ...] = (Confluent(), KafkaPython(), Aiokafka())
END = b"the end"

Visible: TypeAlias = Callable[[str, Isolation], list[bytes]]
Instance: TypeAlias = Callable[..., AbstractContextManager[TransactionalProducer]]

_numbers = itertools.count()


@pytest.fixture(params=LIBRARIES, ids=lambda library: library.name)
def library(request: pytest.FixtureRequest) -> TransactionalLibrary:
    found: TransactionalLibrary = request.param
    return found


@pytest.fixture
def transactional_id() -> str:
    return f"transactional-id-{next(_numbers)}"


@pytest.fixture
def instance(cluster: Server, library: TransactionalLibrary, transactional_id: str) -> Instance:
    """Starts one more producer of the transactional id."""
    return partial(library.producer, cluster.bootstrap_servers, transactional_id)


@pytest.fixture
def group() -> str:
    return f"group-{next(_numbers)}"


@pytest.fixture
def visible(cluster: Server, library: TransactionalLibrary) -> Visible:
    """What a reader sees of a topic: a record outside of any transaction marks where it may stop."""

    def read(topic: str, isolation: Isolation) -> list[bytes]:
        PlainConfluent().produce(cluster.bootstrap_servers, topic, [Record(END)])
        return library.read(cluster.bootstrap_servers, topic, isolation, until=END)

    return read


def last_stable_offset(admin: AdminClient, topic: str) -> int:
    place = TopicPartition(topic, 0)
    asked = admin.list_offsets({place: OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_COMMITTED)
    offset: int = asked[place].result(timeout=PATIENCE_S).offset
    return offset


def send_and_commit(producer: TransactionalProducer, topic: str, value: bytes) -> None:
    producer.send(topic, value)
    producer.commit()


def test_committed_records_are_seen_and_aborted_ones_are_not(
    instance: Instance, topic: str, admin: AdminClient, visible: Visible
) -> None:
    with instance() as producer:
        for number in range(4):
            producer.begin()
            producer.send(topic, b"%d" % number)
            assert last_stable_offset(admin, topic) == 2 * number, "what is undecided is not stable"
            if number % 2:
                producer.abort()
            else:
                producer.commit()
            eventually(2 * number + 2, lambda: last_stable_offset(admin, topic))
    assert visible(topic, "read_committed") == [b"0", b"2"]
    assert [value for value in visible(topic, "read_uncommitted") if value != END] == [b"0", b"1", b"2", b"3"]


def test_a_transaction_covers_several_partitions(
    instance: Instance, new_topic: Callable[..., str], visible: Visible
) -> None:
    topics = [new_topic() for _ in range(3)]
    with instance() as producer:
        for outcome in (b"aborted", b"committed"):
            producer.begin()
            for topic in topics:
                producer.send(topic, outcome)
            if outcome == b"committed":
                producer.commit()
            else:
                producer.abort()
    assert [visible(topic, "read_committed") for topic in topics] == [[b"committed"]] * 3


def test_a_second_instance_fences_the_first(instance: Instance, topic: str, visible: Visible) -> None:
    """Scenario 16."""
    with instance() as first:
        first.begin()
        first.send(topic, b"of the first")
        with instance() as second:
            with pytest.raises(Fenced):
                send_and_commit(first, topic, b"late")
            second.begin()
            second.send(topic, b"of the second")
            second.commit()
    assert visible(topic, "read_committed") == [b"of the second"]


def test_scenario_26_a_transaction_that_takes_too_long_is_aborted(
    instance: Instance, topic: str, admin: AdminClient, visible: Visible
) -> None:
    with instance(timeout_ms=2500) as slow:
        slow.begin()
        slow.send(topic, b"too slow")
        eventually(2, lambda: last_stable_offset(admin, topic))
        with pytest.raises(Fenced):
            slow.commit()
    with instance() as again:
        again.begin()
        again.send(topic, b"in time")
        again.commit()
    assert visible(topic, "read_committed") == [b"in time"]


def test_scenario_51_offsets_are_committed_with_the_transaction_or_not_at_all(
    cluster: Server, library: TransactionalLibrary, topic: str, transactional_id: str, group: str
) -> None:
    servers = cluster.bootstrap_servers
    with library.producer(servers, transactional_id) as producer:
        producer.begin()
        producer.send(topic, b"a")
        producer.send_offset(group, topic, 3)
        producer.commit()
        eventually(3, lambda: library.committed(servers, group, topic))
        producer.begin()
        producer.send(topic, b"b")
        producer.send_offset(group, topic, 9)
        producer.abort()
        producer.begin()
        producer.send_offset(group, topic, 4)
        producer.commit()
        eventually(4, lambda: library.committed(servers, group, topic))
