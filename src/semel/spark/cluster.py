"""The Kafka cluster as a pipeline needs it: topics, offsets, groups and records, with blocking calls.

It is the admin client and a consumer in the words of the source and the sink. It has its own thread and is created
where it is used: in the planner, in a task, in the driver. A forked process creates its own.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

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
from semel.errors import ErrorCode, KafkaError, TimedOut
from semel.settings import SettingError
from semel.types import TopicPartition

# An answer costs the same time whatever its size. With what is around the records it fits into the client's largest
# buffer that is received into without being moved.
_FETCH_BYTES_MAX: Final = 4 * 2**20 - 4096

_FILES: Final = {
    "ssl.truststore.location": "kafka.ssl.truststore.certificates",
    "ssl.keystore.location": "kafka.ssl.keystore.certificate.chain and kafka.ssl.keystore.key",
}
_WAITS: Final = "; waiting for it, up to outage_timeout_ms of the pipeline, outageTimeoutMs of a source"
_SHARED: Final = ("bootstrap_servers", "security_", "sasl_", "ssl_")
_OF_ADMIN: Final = frozenset(name.replace(".", "_") for name in ADMIN_SETTINGS)


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics that were asked for, with the number of their partitions."""

    partition_counts: Mapping[str, int]
    missing: tuple[str, ...]


class Cluster:
    """``settings`` are those of a consumer."""

    def __init__(self, *, isolation_level: IsolationLevel = IsolationLevel.READ_COMMITTED, **settings: Any) -> None:
        self._config = ConsumerConfig.load({"max_partition_fetch_bytes": _FETCH_BYTES_MAX, **settings})
        self._reads_committed = isolation_level is IsolationLevel.READ_COMMITTED
        own = {name: value for name, value in settings.items() if name in _OF_ADMIN or name in OBJECTS}
        own = {"outages": outages_of_process(), **own}
        with naming_this_machine():
            self._admin = Admin(guard=threading.RLock(), **own)
        self._thread = LoopThread("cluster")
        self._thread.run(self._admin.start())

    def __enter__(self) -> Cluster:
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
                raise  # The client's own time is over.
            asked.cancel()
            return False
        return True

    def cluster_id(self) -> str:
        return self._thread.run(self._admin.cluster.describe()).cluster_id

    def broker_setting(self, name: str) -> str | None:
        """A setting as one of the brokers has it; ``None`` if it has no such setting."""
        broker, *_ = self._thread.run(self._admin.cluster.describe()).brokers
        entries = self._thread.run(self._admin.configs.describe(ConfigResource.broker(broker.broker_id)))
        return entries[name].value if name in entries else None

    # Topics

    def topics(self, names: Iterable[str] | None = None) -> Topics:
        """These topics, or all; never the internal ones. Asking creates none."""
        if names is None:
            listed = self._thread.run(self._admin.topics.list())
            return Topics({name: topic.partitions for name, topic in listed.items()}, ())
        found = self._thread.run(self._admin.topics.describe_many(names))
        for error in found.failed.values():
            if isinstance(error, TimedOut):
                raise error  # No broker has said that it is missing.
        counts = {name: len(topic.partitions) for name, topic in found.succeeded.items() if not topic.is_internal}
        return Topics(counts, tuple(found.failed))

    # Offsets

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._offsets(partitions, OffsetSpec.EARLIEST)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The last stable offset, for read_committed."""
        return self._offsets(partitions, OffsetSpec.LATEST)

    def offsets_for_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The first record of each partition that is as late; ``None`` where none is."""
        level = "read_committed" if self._reads_committed else "read_uncommitted"
        listed = self._thread.run(self._admin.partitions.list_offsets(timestamps, isolation_level=level))
        return {topic_partition: at.offset for topic_partition, at in listed.all().items()}

    def committed(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None, *, stable: bool = True
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """How far the group has read, these partitions or all; nothing for what it never committed. ``stable``: once no
        transaction that is open can change that."""
        return self._thread.run(self._admin.groups.list_offsets(group_id, partitions, require_stable=stable))

    def member_count(self, group_id: str) -> int:
        """How many members the group has now, by whichever protocol."""
        try:
            return len(self._thread.run(self._admin.groups.describe(group_id)).members)
        except KafkaError as error:
            if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
                return 0
            raise

    # Records

    def fetch(self, topic_partition: TopicPartition, offset: int, bytes_wanted: int) -> Future[RawBatches]:
        """What the log has from here on, on its way: a batch at least, else not more than is wanted or was set.

        It fails with what waiting does not cure: OFFSET_OUT_OF_RANGE.
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


# Of the process that it was made in: a fork sees outages of its own.
_outages: tuple[int, Outages] | None = None


def outages_of_process() -> Outages:
    """What all clients of a driver, or of a worker, share: each of them tells of an outage once."""
    global _outages
    if _outages is None or _outages[0] != os.getpid():
        _outages = os.getpid(), Outages(_WAITS)
    return _outages[1]


@contextmanager
def naming_this_machine() -> Iterator[None]:
    """A file that a setting names must be wherever a client is made: a task that lacks it says on which machine."""
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
    """Of a producer's settings, those that say where the cluster is, how one is let in and how long one waits."""
    own = {name: value for name, value in settings.items() if name.startswith(_SHARED)}
    return {**own, "default_api_timeout_ms": settings["max_block_ms"]} if "max_block_ms" in settings else own
