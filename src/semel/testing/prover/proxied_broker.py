"""Any Kafka cluster, used through a proxy, for one trial.

The topics of the trial are created before it. They are deleted after it, with the groups that have committed offsets in
them. The clock cannot be set forward: a group waits for a killed member until its session timeout.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Final

from semel.blocking import Admin, Consumer
from semel.client.config.common import addresses
from semel.client.values import ConsumerRecord
from semel.errors import ErrorCode, KafkaError
from semel.testing.faults import Faults
from semel.testing.prover.input import write_input
from semel.testing.prover.records import Records
from semel.testing.tracing.proxy import Proxy
from semel.types import TopicPartition

# A transaction that was left open ends after transaction.timeout.ms, a minute by default.
_SETTLE_SECONDS_MAX: Final = 120.0
_PAUSE_SECONDS: Final = 0.1


class TopicExists(Exception):
    """A topic of the proof exists already. The prover must not delete a topic that it did not create."""


class ProxiedBroker:
    can_restart = False

    def __init__(self, servers: str, proxy: Proxy, topics: Iterable[str], partitions: int) -> None:
        self._servers = servers
        self._proxy = proxy
        self._topics = sorted(topics)
        self._partitions = partitions

    @property
    def faults(self) -> Faults:
        return self._proxy.faults

    @property
    def bootstrap_servers(self) -> str:
        return self._proxy.bootstrap_servers

    def make_topics(self) -> None:
        with Admin(bootstrap_servers=self._servers) as admin:
            there = set(admin.topics.list()) & set(self._topics)
            if there:
                raise TopicExists(
                    f"{', '.join(sorted(there))}: there already at {self._servers}. The topics of a proof are made for "
                    "it and deleted after it"
                )
            for topic in self._topics:
                admin.topics.create(topic, partitions=self._partitions)

    def delete_topics(self, *, is_interrupted: bool = False) -> None:
        """Delete the topics of the trial, and the groups that have committed offsets in them.

        A group with a killed member can be deleted only after that member's session timeout. The method waits for that,
        unless ``is_interrupted``: then such a group is kept.
        """
        patience_s = 0.0 if is_interrupted else _SETTLE_SECONDS_MAX
        with Admin(bootstrap_servers=self._servers) as admin:
            for group in admin.groups.list():
                offsets = admin.groups.list_offsets(group.group_id)
                if any(partition.topic in self._topics for partition in offsets):
                    _until(partial(_is_deleted, admin, group.group_id), patience_s)
            admin.topics.delete_many(self._topics)
            _until(lambda: not set(admin.topics.list()) & set(self._topics))

    def fill(self, given: Records, *, aborts: bool) -> None:
        write_input(self._servers, given, self._partitions, aborts=aborts)

    def expire_members(self) -> None:
        pass

    def settle(self, topic: str) -> None:
        with self._consumer("read_committed") as stable, self._consumer("read_uncommitted") as all_there_is:
            partitions = [TopicPartition(topic, index) for index in range(self._partitions)]
            _until(lambda: stable.end_offsets(partitions) == all_there_is.end_offsets(partitions))

    def committed(self, topic: str) -> list[ConsumerRecord]:
        partitions = [TopicPartition(topic, index) for index in range(self._partitions)]
        with self._consumer("read_committed") as consumer:
            consumer.assign(partitions)
            ends = consumer.end_offsets(partitions)
            records: list[ConsumerRecord] = []
            while any(consumer.position(partition) < end for partition, end in ends.items()):
                records += consumer.poll(1000)
            return records

    def restart(self, *, kill: bool) -> None:
        raise NotImplementedError("the broker belongs to another process")

    def _consumer(self, isolation_level: str) -> Consumer:
        return Consumer(bootstrap_servers=self._servers, auto_offset_reset="earliest", isolation_level=isolation_level)


@contextlib.contextmanager
def proxied_broker(servers: str, topics: Iterable[str], partitions: int) -> Iterator[ProxiedBroker]:
    """Start a proxy before the cluster and create the topics; delete them at the end. Raises ``TopicExists``."""
    with Proxy(addresses(servers.split(","))) as proxy:
        broker = ProxiedBroker(servers, proxy, topics, partitions)
        broker.make_topics()
        try:
            yield broker
        except BaseException:
            broker.delete_topics(is_interrupted=True)
            raise
        broker.delete_topics()


def _until(is_so: Callable[[], bool], patience_s: float = _SETTLE_SECONDS_MAX) -> None:
    until = time.monotonic() + patience_s
    while not is_so() and time.monotonic() < until:
        time.sleep(_PAUSE_SECONDS)


def _is_deleted(admin: Admin, group_id: str) -> bool:
    try:
        admin.groups.delete(group_id)
    except KafkaError as error:
        return error.code is ErrorCode.GROUP_ID_NOT_FOUND
    return True
