"""The Kafka cluster as a pipeline needs it: topics, offsets, groups and records, with blocking calls.

It wraps the admin client, whose event loop runs in a thread of its own. It is created where it is used: in the planner,
in a task, in the driver. A forked process creates its own.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Self
from uuid import UUID

from semel.client.admin.admin import Admin
from semel.client.admin.batches import RawBatches
from semel.client.admin.configs import ConfigResource
from semel.client.admin.partitions import OffsetSpec
from semel.client.config.admin import ADMIN_SETTINGS
from semel.client.config.common import OBJECTS
from semel.client.config.consumer import ConsumerConfig, IsolationLevel
from semel.client.drivers.loop_thread import LoopThread
from semel.client.machine.connection.outages import Outages
from semel.client.values import OffsetAndMetadata
from semel.errors import AbortableError, ErrorCode, KafkaError
from semel.settings import SettingError
from semel.types import TopicPartition

# A Fetch response costs the same time whatever its size. One of this size, with its header and other fields, is still
# below the size from which the client's receive buffer grows by copying (see ``net/frame_receiver.py``).
_FETCH_BYTES_MAX: Final = 4 * 2**20 - 4096

_FILES: Final = {
    "ssl.truststore.location": "kafka.ssl.truststore.certificates",
    "ssl.keystore.location": "kafka.ssl.keystore.certificate.chain and kafka.ssl.keystore.key",
}
_NO_SUCH_TOPIC: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
_WAITS: Final = "; waiting for it, up to outage_timeout_ms of the pipeline, outageTimeoutMs of a source"
_SHARED: Final = ("bootstrap_servers", "security_", "sasl_", "ssl_")
_OF_ADMIN: Final = frozenset(name.replace(".", "_") for name in ADMIN_SETTINGS)


@dataclass(frozen=True, slots=True)
class Topics:
    """The result of looking up topics: the number of partitions of each topic that exists, and the missing topics."""

    partition_counts: Mapping[str, int]
    missing: tuple[str, ...]
    internal: frozenset[str] = frozenset()
    """The topics among those that exist to which only brokers write, such as ``__consumer_offsets``."""
    refused: Mapping[str, KafkaError] = field(default_factory=dict)
    """The topics of which is not known whether they exist, with the broker's error: this user may not describe them, or
    the name is not legal."""
    ids: Mapping[str, UUID] = field(default_factory=dict)
    """The topic id of each topic that exists. A topic that is deleted and created again has another one."""


class Cluster:
    """Blocking access to one Kafka cluster. ``settings`` are those of a consumer."""

    def __init__(self, *, isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED, **settings: Any) -> None:
        self._config = ConsumerConfig.load({"max_partition_fetch_bytes": _FETCH_BYTES_MAX, **settings})
        self._reads_committed = isolation_level is IsolationLevel.READ_COMMITTED
        own = {name: value for name, value in settings.items() if name in _OF_ADMIN or name in OBJECTS}
        own = {"outages": outages_of_process(), **own}
        with naming_this_machine():
            self._admin = Admin(guard=threading.RLock(), **own)
        self._thread = LoopThread("cluster")
        self._thread.run(self._admin.start())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        if self._thread.is_running:
            self._thread.run(self._admin.close())
            self._thread.stop()

    def is_answering(self, timeout_s: float) -> bool:
        """Whether a broker answers within this time."""
        asked = self._thread.begin(self._admin.cluster.describe())
        try:
            asked.result(timeout_s)
        except TimeoutError:
            if asked.done():
                raise  # This is the client's own timeout, not the one of this call.
            asked.cancel()
            return False
        return True

    def cluster_id(self) -> str:
        return self._thread.run(self._admin.cluster.describe()).cluster_id

    def broker_setting(self, name: str) -> str | None:
        """Return the value of a setting on one of the brokers; ``None`` if it has no such setting."""
        broker, *_ = self._thread.run(self._admin.cluster.describe()).brokers
        entries = self._thread.run(self._admin.configs.describe(ConfigResource.broker(broker.broker_id)))
        return entries[name].value if name in entries else None

    # Topics

    def topics(self, names: Iterable[str] | None = None) -> Topics:
        """Look up these topics, or all topics that are not internal. Missing topics are not created.

        Raises ``AbortableError`` for the first topic that is refused, so ``refused`` of the result is empty.
        """
        if names is None:
            listed = self._thread.run(self._admin.topics.list())
            counts = {name: topic.partitions for name, topic in listed.items()}
            return Topics(counts, (), ids={name: topic.topic_id for name, topic in listed.items()})
        found = self.look_up(names)
        for error in found.refused.values():
            raise error
        return found

    def look_up(self, names: Iterable[str]) -> Topics:
        """Look up these topics, like ``topics``, but return refused topics with the others."""
        found = self._thread.run(self._admin.topics.describe_many(names))
        refused: dict[str, KafkaError] = {}
        missing = []
        for name, error in found.failed.items():
            if error.code in _NO_SUCH_TOPIC:
                missing.append(name)
            elif isinstance(error, AbortableError):
                refused[name] = _with_remedy(name, error)
            else:
                raise error  # It says nothing about this topic: no broker has answered, or the login was refused.
        counts = {name: len(topic.partitions) for name, topic in found.succeeded.items()}
        internal = frozenset(name for name, topic in found.succeeded.items() if topic.is_internal)
        ids = {name: topic.topic_id for name, topic in found.succeeded.items()}
        return Topics(counts, tuple(missing), internal, refused, ids)

    def topic_settings(self, name: str) -> Mapping[str, str | None]:
        """Return the values of a topic's settings; none if this user may not see them."""
        try:
            entries = self._thread.run(self._admin.configs.describe(ConfigResource.topic(name)))
        except AbortableError:
            return {}
        return {setting: entry.value for setting, entry in entries.items()}

    # Offsets

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._offsets(partitions, OffsetSpec.EARLIEST)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the end offset of each partition: with read_committed the last stable offset."""
        return self._offsets(partitions, OffsetSpec.LATEST)

    def offsets_for_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """Return, for each partition, the offset of the first record with this timestamp or a later one; ``None`` if
        there is no such record."""
        level = "read_committed" if self._reads_committed else "read_uncommitted"
        listed = self._thread.run(self._admin.partitions.list_offsets(timestamps, isolation_level=level))
        return {topic_partition: at.offset for topic_partition, at in listed.all().items()}

    def committed(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None, *, stable: bool = True
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the group's committed offsets for these partitions, or for all.

        Partitions without a committed offset are left out. ``stable`` waits until no offsets of an open transaction are
        pending.
        """
        return self._thread.run(self._admin.groups.list_offsets(group_id, partitions, require_stable=stable))

    def member_count(self, group_id: str) -> int:
        """Return how many members the group has now, with the classic or the consumer protocol (KIP-848)."""
        try:
            return len(self._thread.run(self._admin.groups.describe(group_id)).members)
        except KafkaError as error:
            if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
                return 0
            raise

    # Records

    def fetch(self, topic_partition: TopicPartition, offset: int, bytes_wanted: int) -> Future[RawBatches]:
        """Send a Fetch for the record batches from this offset on, and return the future result.

        The result has at most ``bytes_wanted`` or ``max_partition_fetch_bytes``, whichever is less, but at least one
        batch. Only errors that a retry does not cure make the future fail, such as OFFSET_OUT_OF_RANGE.
        """
        return self._thread.begin(
            self._admin.partitions.read_batches(
                topic_partition,
                offset,
                stable_only=self._reads_committed,
                max_bytes=min(bytes_wanted, self._config.max_partition_fetch_bytes),
            )
        )

    def _offsets(self, partitions: Iterable[TopicPartition], spec: OffsetSpec) -> dict[TopicPartition, int]:
        found = self.offsets_for_times(dict.fromkeys(partitions, int(spec)))
        return {topic_partition: offset for topic_partition, offset in found.items() if offset is not None}


def _with_remedy(topic: str, error: AbortableError) -> AbortableError:
    if error.code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return error
    return AbortableError(
        error.code, f"this user may not describe topic {topic!r}: allow it READ, to read it, or WRITE, to write to it"
    )


# The process id, and the outages of that process: a forked process keeps its own.
_outages: tuple[int, Outages] | None = None


def outages_of_process() -> Outages:
    """Return the ``Outages`` that all clients of this process share, so that the process logs an outage once."""
    global _outages
    if _outages is None or _outages[0] != os.getpid():
        _outages = os.getpid(), Outages(_WAITS)
    return _outages[1]


@contextmanager
def naming_this_machine() -> Iterator[None]:
    """Add this machine's name to the error for a file that a setting names and that is missing here.

    Such a file must exist on the driver and on every worker.
    """
    try:
        yield
    except SettingError as error:
        if error.setting not in _FILES:
            raise
        raise SettingError(
            error.setting,
            f"{error}. This is on {socket.gethostname()}: the file must be there on the driver and on every worker. "
            f"Or give its text, which travels with the query: {_FILES[error.setting]}",
        ) from None


def client_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a producer and a ``Cluster`` share: servers, security and the timeout."""
    own = {name: value for name, value in settings.items() if name.startswith(_SHARED)}
    return {**own, "default_api_timeout_ms": settings["max_block_ms"]} if "max_block_ms" in settings else own
