"""The state of a cluster, read from its brokers over the Kafka protocol, and from ZooKeeper.

Brokers, controller and leaders are read from any broker. Then a request is sent to each broker, to find out which of
them answer. Broker epochs and sessions are only in ZooKeeper.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from semel.cli.reachability import answers
from semel.errors import SemelError
from semel.types import Address

if TYPE_CHECKING:
    from semel.blocking import Admin
    from semel.client.admin.cluster import BrokerDescription

ANSWER_SECONDS_MAX: Final = 2.0
SESSION_SECONDS_MAX: Final = 10.0


@dataclass(frozen=True, slots=True)
class Registration:
    """The registration of a broker in ZooKeeper. It is removed when ``session`` ends."""

    epoch: int
    session: str


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    cluster_id: str
    controller_id: int | None
    features: Mapping[str, int]
    topics: int
    partitions: int
    without_leader: list[str]
    under_replicated: list[str]
    brokers: list[dict[str, Any]]

    @property
    def is_whole(self) -> bool:
        partitions_are_well = not self.without_leader and not self.under_replicated
        return partitions_are_well and all(broker["state"] == "up" for broker in self.brokers)


def cluster_status(
    admin: Admin, registrations: Mapping[int, Registration] | None, *, has_tls: bool = False
) -> ClusterStatus:
    """Read the state of a cluster. ``registrations`` are those of ZooKeeper; ``None`` leaves them out.

    Raises ``KafkaError``.
    """
    cluster = admin.cluster.describe()
    names = admin.topics.list(include_internal=True)
    described = admin.topics.describe_many(names).all().values()
    states = [(topic.name, state) for topic in described for state in topic.partitions]
    known = {broker.broker_id: broker for broker in cluster.brokers}
    leads = Counter(state.leader for _, state in states if state.leader is not None)
    replicas = Counter(replica for _, state in states for replica in state.replicas)
    in_sync = Counter(replica for _, state in states for replica in state.in_sync)
    up = answering(cluster.brokers, has_tls=has_tls)
    brokers: list[dict[str, Any]] = []
    for node_id in sorted({*known, *(replica for _, state in states for replica in state.replicas)}):
        broker, registration = known.get(node_id), (registrations or {}).get(node_id)
        row: dict[str, Any] = {
            "id": node_id,
            "address": None if broker is None else f"{broker.host}:{broker.port}",
            "rack": None if broker is None else broker.rack,
            "state": "not registered" if broker is None else "up" if node_id in up else "no answer",
            "controller": node_id == cluster.controller_id,
            "leads": leads[node_id],
            "replicas": replicas[node_id],
            "in_sync": in_sync[node_id],
        }
        if registrations is not None:
            row["epoch"] = None if registration is None else registration.epoch
            row["session"] = None if registration is None else registration.session
        brokers.append(row)
    return ClusterStatus(
        cluster.cluster_id,
        cluster.controller_id,
        admin.cluster.features().finalized,
        len(names),
        len(states),
        [f"{topic}:{state.partition}" for topic, state in states if state.leader is None],
        [f"{topic}:{state.partition}" for topic, state in states if len(state.in_sync) < len(state.replicas)],
        brokers,
    )


def registrations_in(connect: str) -> dict[int, Registration]:
    """Return the registrations of all brokers in ZooKeeper, by broker id. Raises ``SemelError``."""
    from semel.broker.cluster.shared_metadata import open_kazoo_session
    from semel.metadata import paths
    from semel.metadata.zookeeper.session import ConnectionLost

    async def read() -> dict[int, Registration]:
        session = await open_kazoo_session(connect, timeout_s=SESSION_SECONDS_MAX, connect_s=SESSION_SECONDS_MAX)
        try:
            found: dict[int, Registration] = {}
            for name in await session.children(paths.BROKERS):
                node = await session.get(f"{paths.BROKERS}/{name}")
                if node is not None and name.isdecimal():
                    found[int(name)] = Registration(node.mzxid, f"{node.owner:#x}")
            return found
        except ConnectionLost as error:
            raise SemelError(f"--zookeeper {error}") from None
        finally:
            await session.close()

    return asyncio.run(read())


def answering(brokers: Iterable[BrokerDescription], *, has_tls: bool) -> set[int]:
    """Return the ids of the brokers that answer. All are asked at the same time, because a broker that drops packets
    takes the whole timeout."""

    def is_there(broker: BrokerDescription) -> bool:
        return answers(Address(broker.host, broker.port), has_tls=has_tls, timeout_s=ANSWER_SECONDS_MAX)

    asked = list(brokers)
    with ThreadPoolExecutor(max_workers=max(len(asked), 1)) as pool:
        return {broker.broker_id for broker, found in zip(asked, pool.map(is_there, asked), strict=True) if found}
