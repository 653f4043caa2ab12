"""``semel.blocking.Admin``: the same admin client, for threads.

The asyncio client runs in a thread of its own; every call waits for its outcome there. The signatures are those of the
asyncio calls, which a test checks; the docstrings are theirs as well, copied when this module is imported.
"""

from __future__ import annotations

import threading
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Unpack

from semel.blocking.docs import copy_docstrings
from semel.client.admin import acls as async_acls
from semel.client.admin import cluster as async_cluster
from semel.client.admin import configs as async_configs
from semel.client.admin import groups as async_groups
from semel.client.admin import partitions as async_partitions
from semel.client.admin import quotas as async_quotas
from semel.client.admin import topics as async_topics
from semel.client.admin import transactions as async_transactions
from semel.client.admin import users as async_users
from semel.client.admin.admin import Admin as AsyncAdmin
from semel.client.admin.batches import RawBatches
from semel.client.admin.cluster import ClusterDescription, Features, LogDir
from semel.client.admin.configs import ConfigChange, ConfigEntry, ConfigResource
from semel.client.admin.group_descriptions import GroupDescription
from semel.client.admin.groups import GroupListing
from semel.client.admin.hanging import HangingTransaction
from semel.client.admin.partitions import BATCHES_BYTES_MAX, ListedOffset, OffsetsBeforeLike, ProducerState, TimesLike
from semel.client.admin.results import Results
from semel.client.admin.topics import CreatedTopic, NewTopic, TopicDescription, TopicListing
from semel.client.admin.transactions import MAX_TRANSACTION_TIMEOUT_MS, TransactionDescription, TransactionListing
from semel.client.admin.users import Credentials
from semel.client.drivers.loop_thread import LoopThread
from semel.client.offsets import OffsetsLike, PartitionLike
from semel.client.values import OffsetAndMetadata
from semel.security.acls import AclBinding, AclFilter
from semel.security.quota_entities import QuotaEntity
from semel.types import TopicPartition
from semel.wire.codes import ScramMechanism

if TYPE_CHECKING:
    from semel.client.config.keywords import AdminSettings

T = TypeVar("T")


class Run(Protocol):
    """A function that runs a coroutine and returns its result."""

    def __call__(self, work: Coroutine[Any, Any, T], /) -> T: ...


class Admin:
    """``semel.Admin`` without asyncio: every call that would be awaited blocks instead.

        with Admin(bootstrap_servers="localhost:9092") as admin:
            admin.topics.create("orders", partitions=6)

    It may be used by many threads.
    """

    def __init__(self, **settings: Unpack[AdminSettings]) -> None:
        self._admin = AsyncAdmin(guard=threading.RLock(), **settings)
        self._thread = LoopThread("admin client")
        run = self._thread.run
        run(self._admin.start())
        self.topics = Topics(run, self._admin.topics)
        self.configs = Configs(run, self._admin.configs)
        self.partitions = Partitions(run, self._admin.partitions)
        self.groups = Groups(run, self._admin.groups)
        self.cluster = Cluster(run, self._admin.cluster)
        self.transactions = Transactions(run, self._admin.transactions)
        self.acls = Acls(run, self._admin.acls)
        self.quotas = Quotas(run, self._admin.quotas)
        self.users = Users(run, self._admin.users)

    def __enter__(self) -> Admin:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<blocking {repr(self._admin)[1:]}"

    def metrics(self) -> dict[str, float]:
        """Return counts of requests and responses since this client was made, as ``semel.Admin.metrics`` does."""
        return self._admin.metrics()

    def close(self) -> None:
        """Close all connections and end the thread. Calls of other threads that are not answered yet fail."""
        if self._thread.is_running:
            self._thread.finish(self._admin.close())


class Topics:
    def __init__(self, run: Run, topics: async_topics.Topics) -> None:
        self._run = run
        self._topics = topics

    def create(
        self,
        name: str,
        *,
        partitions: int | None = None,
        replication_factor: int | None = None,
        configs: Mapping[str, object] | None = None,
        assignments: Mapping[int, Sequence[int]] | None = None,
        validate_only: bool = False,
    ) -> CreatedTopic:
        return self._run(
            self._topics.create(
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                configs=configs,
                assignments=assignments,
                validate_only=validate_only,
            )
        )

    def create_many(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> Results[str, CreatedTopic]:
        return self._run(self._topics.create_many(topics, validate_only=validate_only))

    def delete(self, name: str) -> None:
        self._run(self._topics.delete(name))

    def delete_many(self, names: Iterable[str]) -> Results[str, None]:
        return self._run(self._topics.delete_many(names))

    def list(self, *, include_internal: bool = False) -> dict[str, TopicListing]:
        return self._run(self._topics.list(include_internal=include_internal))

    def describe(self, name: str) -> TopicDescription:
        return self._run(self._topics.describe(name))

    def describe_many(self, names: Iterable[str]) -> Results[str, TopicDescription]:
        return self._run(self._topics.describe_many(names))

    def create_partitions(
        self, name: str, total: int, *, assignments: Sequence[Sequence[int]] | None = None, validate_only: bool = False
    ) -> None:
        self._run(self._topics.create_partitions(name, total, assignments=assignments, validate_only=validate_only))


class Configs:
    def __init__(self, run: Run, configs: async_configs.Configs) -> None:
        self._run = run
        self._configs = configs

    def describe(self, resource: ConfigResource, *, include_documentation: bool = False) -> dict[str, ConfigEntry]:
        return self._run(self._configs.describe(resource, include_documentation=include_documentation))

    def describe_many(
        self, resources: Iterable[ConfigResource], *, include_documentation: bool = False
    ) -> Results[ConfigResource, dict[str, ConfigEntry]]:
        return self._run(self._configs.describe_many(resources, include_documentation=include_documentation))

    def alter(
        self,
        resource: ConfigResource,
        values: Mapping[str, object] | None = None,
        *,
        append: Mapping[str, object] | None = None,
        subtract: Mapping[str, object] | None = None,
        validate_only: bool = False,
    ) -> None:
        self._run(self._configs.alter(resource, values, append=append, subtract=subtract, validate_only=validate_only))

    def alter_many(
        self, changes: Mapping[ConfigResource, ConfigChange], *, validate_only: bool = False
    ) -> Results[ConfigResource, None]:
        return self._run(self._configs.alter_many(changes, validate_only=validate_only))


class Partitions:
    def __init__(self, run: Run, partitions: async_partitions.Partitions) -> None:
        self._run = run
        self._partitions = partitions

    def list_offsets(
        self, times: TimesLike, *, isolation_level: str = "read_uncommitted"
    ) -> Results[TopicPartition, ListedOffset]:
        return self._run(self._partitions.list_offsets(times, isolation_level=isolation_level))

    def log_ends(self, partitions: Iterable[PartitionLike]) -> Results[TopicPartition, ListedOffset]:
        return self._run(self._partitions.log_ends(partitions))

    def delete_records(self, before: OffsetsBeforeLike) -> Results[TopicPartition, int]:
        return self._run(self._partitions.delete_records(before))

    def describe_producers(
        self, partitions: Iterable[PartitionLike]
    ) -> Results[TopicPartition, tuple[ProducerState, ...]]:
        return self._run(self._partitions.describe_producers(partitions))

    def read_batches(
        self, partition: PartitionLike, offset: int, *, stable_only: bool = False, max_bytes: int = BATCHES_BYTES_MAX
    ) -> RawBatches:
        return self._run(self._partitions.read_batches(partition, offset, stable_only=stable_only, max_bytes=max_bytes))


class Groups:
    def __init__(self, run: Run, groups: async_groups.Groups) -> None:
        self._run = run
        self._groups = groups

    def list(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> tuple[GroupListing, ...]:
        return self._run(self._groups.list(states=states, types=types))

    def describe(self, group_id: str) -> GroupDescription:
        return self._run(self._groups.describe(group_id))

    def describe_many(self, group_ids: Iterable[str]) -> Results[str, GroupDescription]:
        return self._run(self._groups.describe_many(group_ids))

    def delete(self, group_id: str) -> None:
        self._run(self._groups.delete(group_id))

    def delete_many(self, group_ids: Iterable[str]) -> Results[str, None]:
        return self._run(self._groups.delete_many(group_ids))

    def list_offsets(
        self, group_id: str, partitions: Iterable[PartitionLike] | None = None, *, require_stable: bool = False
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        return self._run(self._groups.list_offsets(group_id, partitions, require_stable=require_stable))

    def list_offsets_many(self, group_ids: Iterable[str]) -> Results[str, dict[TopicPartition, OffsetAndMetadata]]:
        return self._run(self._groups.list_offsets_many(group_ids))

    def alter_offsets(self, group_id: str, offsets: OffsetsLike) -> Results[TopicPartition, None]:
        return self._run(self._groups.alter_offsets(group_id, offsets))

    def delete_offsets(self, group_id: str, partitions: Iterable[PartitionLike]) -> Results[TopicPartition, None]:
        return self._run(self._groups.delete_offsets(group_id, partitions))


class Cluster:
    def __init__(self, run: Run, cluster: async_cluster.Cluster) -> None:
        self._run = run
        self._cluster = cluster

    def describe(self) -> ClusterDescription:
        return self._run(self._cluster.describe())

    def log_dirs(
        self, brokers: Iterable[int] | None = None, *, partitions: Iterable[PartitionLike] | None = None
    ) -> Results[int, dict[str, LogDir]]:
        return self._run(self._cluster.log_dirs(brokers, partitions=partitions))

    def features(self) -> Features:
        return self._run(self._cluster.features())


class Transactions:
    def __init__(self, run: Run, transactions: async_transactions.Transactions) -> None:
        self._run = run
        self._transactions = transactions

    def list(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        running_longer_than_ms: int | None = None,
        transactional_id_pattern: str | None = None,
    ) -> tuple[TransactionListing, ...]:
        return self._run(
            self._transactions.list(
                states=states,
                producer_ids=producer_ids,
                running_longer_than_ms=running_longer_than_ms,
                transactional_id_pattern=transactional_id_pattern,
            )
        )

    def describe(self, transactional_id: str) -> TransactionDescription:
        return self._run(self._transactions.describe(transactional_id))

    def describe_many(self, transactional_ids: Iterable[str]) -> Results[str, TransactionDescription]:
        return self._run(self._transactions.describe_many(transactional_ids))

    def find_hanging(
        self,
        *,
        topics: Iterable[str] | None = None,
        broker_id: int | None = None,
        max_transaction_timeout_ms: int = MAX_TRANSACTION_TIMEOUT_MS,
    ) -> tuple[HangingTransaction, ...]:
        return self._run(
            self._transactions.find_hanging(
                topics=topics, broker_id=broker_id, max_transaction_timeout_ms=max_transaction_timeout_ms
            )
        )

    def abort(
        self,
        partition: PartitionLike,
        *,
        start_offset: int | None = None,
        producer_id: int | None = None,
        producer_epoch: int | None = None,
        coordinator_epoch: int = 0,
    ) -> None:
        self._run(
            self._transactions.abort(
                partition,
                start_offset=start_offset,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                coordinator_epoch=coordinator_epoch,
            )
        )


class Acls:
    def __init__(self, run: Run, acls: async_acls.Acls) -> None:
        self._run = run
        self._acls = acls

    def describe(self, matching: AclFilter | None = None) -> tuple[AclBinding, ...]:
        return self._run(self._acls.describe(matching))

    def create(self, bindings: Iterable[AclBinding]) -> Results[AclBinding, None]:
        return self._run(self._acls.create(bindings))

    def delete(self, filters: Iterable[AclFilter]) -> Results[AclFilter, tuple[AclBinding, ...]]:
        return self._run(self._acls.delete(filters))


class Quotas:
    def __init__(self, run: Run, quotas: async_quotas.Quotas) -> None:
        self._run = run
        self._quotas = quotas

    def describe(
        self, matching: QuotaEntity | None = None, *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        return self._run(self._quotas.describe(matching, strict=strict))

    def alter(
        self, quotas: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> Results[QuotaEntity, None]:
        return self._run(self._quotas.alter(quotas, validate_only=validate_only))


class Users:
    def __init__(self, run: Run, users: async_users.Users) -> None:
        self._run = run
        self._users = users

    def list(self) -> dict[str, Credentials]:
        return self._run(self._users.list())

    def describe(self, user: str) -> Credentials:
        return self._run(self._users.describe(user))

    def describe_many(self, users: Iterable[str]) -> Results[str, Credentials]:
        return self._run(self._users.describe_many(users))

    def upsert(
        self,
        user: str,
        password: str | bytes,
        *,
        mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512,
        iterations: int = 8192,
        salt: bytes | None = None,
    ) -> None:
        self._run(self._users.upsert(user, password, mechanism=mechanism, iterations=iterations, salt=salt))

    def delete(self, user: str, *, mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512) -> None:
        self._run(self._users.delete(user, mechanism=mechanism))


for _blocking, _asynchronous in (
    (Topics, async_topics.Topics),
    (Configs, async_configs.Configs),
    (Partitions, async_partitions.Partitions),
    (Groups, async_groups.Groups),
    (Cluster, async_cluster.Cluster),
    (Transactions, async_transactions.Transactions),
    (Acls, async_acls.Acls),
    (Quotas, async_quotas.Quotas),
    (Users, async_users.Users),
):
    copy_docstrings(_blocking, _asynchronous)
