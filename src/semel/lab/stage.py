"""What a scene plays on: a broker or a cluster, clients that are watched, and the record of what happened.

``step`` ends a step of a scene: it records the requests on the wire since the last step, the state of the clients and
the contents of the logs, and shows them to the audience. Logs are read by ordinary requests of a client with the id
``lab``, which are left out of the record.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, TypeVar
from uuid import UUID

from semel.blocking import Admin, Consumer, Producer
from semel.errors import SemelError
from semel.lab.killable_broker import KillableBroker
from semel.lab.log_view import LogView, read_log
from semel.lab.words import Text
from semel.testing.broker import Broker
from semel.testing.cluster import Cluster
from semel.testing.tracing.wire_trace import WireEvent, WireTrace
from semel.types import TopicPartition

LAB: Final = "lab"
PATIENCE_S: Final = 60.0
"""The longest time that a scene waits for one thing. Even on a busy machine a scene needs far less."""

_ALWAYS_HIDDEN: Final = frozenset({"ApiVersions", "Metadata", "FindCoordinator", "ListOffsets", "OffsetFetch"})
_HIDDEN_UNLESS_SHOWN: Final = frozenset({"Fetch", "Heartbeat", "JoinGroup", "SyncGroup", "LeaveGroup", "CreateTopics"})
_PAUSE_S: Final = 0.005

T = TypeVar("T")


class SceneFailed(SemelError):
    """A scene could not be played: something that it waits for did not happen in time."""


@dataclass(frozen=True, slots=True)
class ClientView:
    """The state of a client, as lines of text."""

    name: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Frame:
    """What the audience sees at the end of a step."""

    number: int
    text: Text
    clients: tuple[ClientView, ...]
    wire: tuple[WireEvent, ...]
    logs: tuple[LogView, ...]


class Stage:
    """``with Stage(protected=True, audience=show) as stage:`` and ``scene.play(stage)``."""

    def __init__(self, *, protected: bool = True, audience: Callable[[Frame], object] = lambda frame: None) -> None:
        self.protected = protected
        self.frames: list[Frame] = []
        self.wire: list[WireEvent] = []
        """The requests and responses of all APIs and of all clients but the lab's own."""
        self._audience = audience
        self._held = ExitStack()
        self._servers = ""
        self._clients: dict[str, Callable[[], Iterable[str]]] = {}
        self._partitions: list[TopicPartition] = []
        self._shown: set[str] = set()
        self._told = 0
        self._topic_names: dict[UUID, str] = {}
        self._admin: Admin | None = None

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._held.__exit__(kind, error, traceback)

    # What a scene puts on the stage

    def broker(self, **settings: Any) -> Broker:
        """A broker in memory, whose wire is recorded."""
        broker = Broker(**{"group_initial_rebalance_delay_ms": 0, **settings})
        broker.faults.observer = WireTrace(self._observed)
        self._held.enter_context(broker)
        self._servers = broker.bootstrap_servers
        return broker

    def cluster(self, **settings: Any) -> Cluster:
        """Three brokers in memory, or as many as ``brokers`` says. Requests between them are recorded, too."""
        cluster = Cluster(**{"brokers": 3, "group_initial_rebalance_delay_ms": 0, **settings})
        for node_id, broker in cluster.brokers.items():
            broker.faults.observer = self._trace(node_id)
        self._held.enter_context(cluster)
        self._servers = cluster.bootstrap_servers
        return cluster

    def killable_broker(self, cluster: Cluster, **settings: Any) -> KillableBroker:
        """One more broker of this cluster, in memory as well, as a process of its own."""
        node_id = len(cluster.brokers) + 1
        broker = KillableBroker(cluster, node_id, settings, observer=self._trace(node_id))
        self._held.callback(broker.close)
        return broker

    def topic(self, name: str, *, partitions: int = 1, shown: bool = True, **how: Any) -> None:
        """Create a topic. The audience sees the logs of its partitions, unless ``shown`` is false."""
        assigned = how.get("assignments")
        self.admin.topics.create(name, partitions=None if assigned else partitions, **how)
        if shown:
            self._partitions += [TopicPartition(name, index) for index in range(partitions)]

    def producer(self, name: str, **settings: Any) -> Producer:
        """A producer with this client id, whose state the audience sees. With a transactional id it is
        initialized, which fences earlier producers of that id.
        """
        quick = {"retry_backoff_ms": 5, "retry_backoff_max_ms": 20, "linger_ms": 0}
        producer = Producer(bootstrap_servers=self._servers, client_id=name, **{**quick, **settings})
        self._held.callback(producer.close, timeout_ms=0)
        if "transactional_id" in settings:
            producer.init()
        self._clients[name] = lambda: _producer_lines(producer)
        return producer

    def consumer(self, name: str, **settings: Any) -> Consumer:
        """A consumer with this client id, whose positions the audience sees."""
        quick = {"auto_offset_reset": "earliest", "fetch_max_wait_ms": 50, "retry_backoff_ms": 5}
        consumer = Consumer(bootstrap_servers=self._servers, client_id=name, **{**quick, **settings})
        self._held.callback(consumer.close)
        self._clients[name] = lambda: _consumer_lines(consumer)
        return consumer

    def watch(self, name: str, lines: Callable[[], Iterable[str]]) -> None:
        """Show the state of something else under this name, for example the records that a reader has seen."""
        self._clients[name] = lines

    def forget(self, name: str) -> None:
        """Stop showing this client, which has been closed."""
        del self._clients[name]

    def show(self, *apis: str) -> None:
        """Show requests of these APIs, too, which are left out by default."""
        self._shown.update(apis)

    # What a scene looks at

    @property
    def servers(self) -> str:
        """The bootstrap servers, for clients in other processes."""
        return self._servers

    @property
    def admin(self) -> Admin:
        if self._admin is None:
            self._admin = Admin(bootstrap_servers=self._servers, client_id=LAB, retry_backoff_ms=5)
            self._held.callback(self._admin.close)
        return self._admin

    def log(self, topic: str, partition: int = 0) -> LogView:
        return read_log(self.admin, TopicPartition(topic, partition))

    def read(self, topic: str, isolation_level: str = "read_committed", partitions: int = 1) -> list[str]:
        """The values that a consumer of this isolation level can read now, from the beginning."""
        consumer = Consumer(
            bootstrap_servers=self._servers,
            client_id=LAB,
            isolation_level=isolation_level,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=50,
        )
        with consumer:
            wanted = [TopicPartition(topic, index) for index in range(partitions)]
            consumer.assign(wanted)
            ends = consumer.end_offsets(wanted)
            found: list[str] = []

            def is_read() -> bool:
                found.extend((record.value or b"").decode() for record in consumer.poll(50))
                return all(consumer.position(partition) >= end for partition, end in ends.items())

            self.wait_for("what can be read now to be read", is_read)
        return found

    def wait_for(self, what: str, comes: Callable[[], bool]) -> None:
        """Wait until a condition holds. Raises ``SceneFailed`` if it does not in time."""
        deadline = time.monotonic() + PATIENCE_S
        while not comes():
            if time.monotonic() > deadline:
                raise SceneFailed(f"waited {PATIENCE_S:.0f} s for {what}")
            time.sleep(_PAUSE_S)

    def events(self, api: str, client: str | None = None) -> list[WireEvent]:
        """The requests and responses of an API, of one client or of all."""
        return [event for event in self.wire if event.api == api and client in (None, event.client_id)]

    # The audience

    def step(self, text: str, **values: object) -> Frame:
        """End a step, and show what has happened in it. ``values`` replace the braces in the text."""
        clients = tuple(ClientView(name, tuple(lines())) for name, lines in self._clients.items())
        logs = tuple(read_log(self.admin, partition) for partition in self._partitions)
        new, self._told = self.wire[self._told :], len(self.wire)
        hidden = _ALWAYS_HIDDEN | (_HIDDEN_UNLESS_SHOWN - self._shown)
        wire = tuple(event for event in new if event.api not in hidden)
        frame = Frame(len(self.frames) + 1, Text(text, values), clients, wire, logs)
        self.frames.append(frame)
        self._audience(frame)
        return frame

    def skip(self) -> None:
        """Do not show the requests since the last step, which were only preparation."""
        self._told = len(self.wire)

    def _trace(self, node_id: int) -> WireTrace:
        return WireTrace(self._observed, server=f"broker {node_id}", names=self._topic_names)

    def _observed(self, event: WireEvent) -> None:
        if event.client_id != LAB:
            self.wire.append(event)


def _producer_lines(producer: Producer) -> Iterable[str]:
    seen = producer.state
    yield seen.state
    if seen.transactional_id is not None:
        yield f"id {seen.transactional_id}"
    if seen.producer_id is not None:
        yield f"producer {seen.producer_id} epoch {seen.producer_epoch}"
    for (topic, partition), progress in seen.partitions.items():
        numbered = f"seq {progress.next_sequence} acked {progress.acknowledged_sequence}"
        yield f"{topic}:{partition} {numbered if seen.producer_id is not None else 'no numbers'}"
        if progress.on_wire or progress.waiting:
            yield f" {progress.on_wire} sent, {progress.waiting} waiting"
    if seen.error is not None:
        yield seen.error.partition(":")[0]


def _consumer_lines(consumer: Consumer) -> Iterable[str]:
    positions = consumer.positions()
    for partition in sorted(consumer.assignment):
        at = positions.get(partition)
        yield f"{partition.topic}:{partition.partition} at {'?' if at is None else at.offset}"
