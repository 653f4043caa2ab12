"""The cluster's image, kept equal to the metadata store.

``change`` is the only way to change the cluster: decide with the image, commit the decision, then replace the image.
One change runs at a time, so each decision sees the result of the last one. If another process committed first, the
store raises ``VersionConflict``, the image is read again, and the decision is made again. A caller that is cancelled
makes no difference: the change is completed, and the image gets what the store has.

If other processes change the store too, ``follow`` brings their changes into the image, path by path, soon after they
are committed. The image may lack such a change for a moment; ``refresh`` waits until it has it.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from semel.errors import DecodeError, StorageError
from semel.metadata import paths
from semel.metadata.controller import MetadataDecision
from semel.metadata.image import (
    Broker,
    BrokerConfigsAltered,
    BrokerRegistered,
    BrokerUnregistered,
    Change,
    ClientMetricsAltered,
    ClusterImage,
    ControllerChanged,
    GroupConfigsAltered,
    Topic,
    TopicAltered,
    TopicCreated,
    TopicDeleted,
    changes_between,
)
from semel.metadata.store import (
    Check,
    Delete,
    MetadataStore,
    Operation,
    Put,
    VersionConflict,
    Versioned,
    compare_and_set,
)

logger = logging.getLogger("semel.metadata")

Result = TypeVar("Result")
Changed: TypeAlias = Callable[[ClusterImage, ClusterImage, Sequence[Change]], None]

# Every conflict means that another commit succeeded; this many in a row mean that something is wrong.
_ATTEMPTS_MAX = 100
# About how many bytes an operation has on the wire besides its path and value.
_OPERATION_BYTES = 60


class ClusterMetadata:
    def __init__(self, store: MetadataStore, image: ClusterImage, versions: dict[str, int]) -> None:
        self._store = store
        self._image = image
        self._versions = versions
        self._turn = asyncio.Lock()
        self._running: dict[asyncio.Task[object], None] = {}
        self._watches: dict[object, Changed] = {}
        self._stale: set[str] = set()  # Paths that changed in the store, by other processes or by this one.
        self._following: asyncio.Task[None] | None = None
        self._stop_following: Callable[[], None] = _nothing
        self._awaiting_refresh: list[Callable[[bool], None]] = []
        self._refreshing: asyncio.Task[None] | None = None

    @classmethod
    async def load(cls, store: MetadataStore, *, new_cluster_id: Callable[[], str]) -> ClusterMetadata:
        """Read the cluster from the store. In an empty store, begin a new cluster with a new id."""
        while (known := await store.get(paths.CLUSTER_ID)) is None:
            try:
                await compare_and_set(store, paths.CLUSTER_ID, new_cluster_id().encode(), None)
            except VersionConflict:
                continue  # Another broker has begun it meanwhile.
        image, versions = await _read(store, known.value.decode())
        return cls(store, image, versions)

    @property
    def image(self) -> ClusterImage:
        return self._image

    @property
    def takes_any_commit(self) -> bool:
        """Whether the store accepts commits of any size."""
        return self._store.commit_bytes_max is None

    def fits_one_commit(self, changes: Sequence[Change]) -> bool:
        """Whether the store accepts all these changes in one commit."""
        bytes_max = self._store.commit_bytes_max
        return bytes_max is None or sum(map(_size_bytes, changes)) <= bytes_max

    def outgrows_commits(self, change: TopicCreated | TopicAltered) -> bool:
        """Whether a topic becomes larger than one commit may be, by more partitions or other configs.

        Its value would leave too little room for elections, which write all of it with longer epochs.
        """
        topic, before = change.topic, self._image.topics.get(change.topic.name)
        if before is not None and len(before.partitions) == len(topic.partitions) and before.configs == topic.configs:
            return False
        if before is not None and _size_bytes(change) <= _size_bytes(TopicAltered(before)):
            return False
        return not self.fits_one_commit([change])

    def room(self) -> CommitRoom:
        """Return an empty ``CommitRoom``, which counts the changes of one commit."""
        return CommitRoom(self._store.commit_bytes_max)

    def fitting(self, changes: Sequence[Change]) -> tuple[Change, ...]:
        """Return the first of these changes, as many as the store accepts in one commit.

        It is for changes that are each right without the others, and are decided again until none are left.
        """
        return tuple(itertools.takewhile(self.room().takes, changes))

    async def change(self, decide: Callable[[ClusterImage], MetadataDecision[Result]]) -> MetadataDecision[Result]:
        """Decide, commit, and replace the image; returns the decision that was committed.

        ``decide`` may be called again, with a newer image. Raises ``StorageError`` if the store cannot take changes.
        """
        running = asyncio.ensure_future(self._change(decide))
        self._running[running] = None
        running.add_done_callback(self._ended)
        return await asyncio.shield(running)

    def watch(self, changed: Changed) -> Callable[[], None]:
        """Call ``changed(before, after, changes)`` with every new image, until the function returned is called."""
        key = object()
        self._watches[key] = changed

        def stop() -> None:
            self._watches.pop(key, None)

        return stop

    def follow(self) -> None:
        """From now on, bring changes by other processes into the image soon after they are in the store."""
        self._stop_following = self._store.watch("/", self._changed_in_store)

    async def refresh(self) -> None:
        """Return when everything that was committed before this call is in the image. Raises ``StorageError``."""
        await self._store.refresh()
        await self._bring_up_to_date()

    def after_refresh(self, then: Callable[[bool], None]) -> None:
        """Call ``then(True)`` after a refresh that begins after this call; ``then(False)`` if the store did not answer.

        All callers that come while a refresh is in progress share the next one.
        """
        self._awaiting_refresh.append(then)
        if self._refreshing is None:
            self._refreshing = asyncio.ensure_future(self._refresh_for_all())

    async def _refresh_for_all(self) -> None:
        try:
            while self._awaiting_refresh:
                awaiting, self._awaiting_refresh = self._awaiting_refresh, []
                is_fresh = True
                try:
                    await self.refresh()
                except StorageError as error:
                    is_fresh = False
                    logger.error("the metadata could not be read: %s", error)
                for then in awaiting:
                    try:
                        then(is_fresh)
                    except Exception:
                        logger.exception("what waited for the metadata could not go on")
        finally:
            self._refreshing = None

    async def close(self) -> None:
        """Wait for the changes that are in progress. The store must be closed by the code that opened it."""
        self._stop_following()
        reading = [task for task in (self._following, self._refreshing) if task is not None]
        await asyncio.gather(*self._running, *reading, return_exceptions=True)

    async def _change(self, decide: Callable[[ClusterImage], MetadataDecision[Result]]) -> MetadataDecision[Result]:
        async with self._turn:
            for _ in range(_ATTEMPTS_MAX):
                decision = decide(self._image)
                if not decision.changes:
                    return decision
                operations = [
                    *(_operation(change, self._versions) for change in decision.changes),
                    *_checks(decision, self._versions),
                ]
                try:
                    versions = await self._store.commit(operations)
                except VersionConflict:
                    await self._reread()
                    continue
                for operation, version in zip(operations, versions, strict=True):
                    if isinstance(operation, Delete):
                        self._versions.pop(operation.path, None)
                    elif version is not None:
                        self._versions[operation.path] = version
                changes = tuple(map(_with_epoch, decision.changes, versions))
                self._replace(self._image.apply(changes), changes)
                return decision
        # The callers try again after a StorageError.
        raise StorageError(f"{_ATTEMPTS_MAX} changes of others came first; nothing was changed")

    def _changed_in_store(self, path: str) -> None:
        self._stale.add(path)
        if self._following is None:
            self._following = asyncio.ensure_future(self._read_stale())

    async def _read_stale(self) -> None:
        try:
            await self._bring_up_to_date()
        except StorageError as error:
            logger.error("the image of the cluster is as of an earlier change: %s", error)
        finally:
            self._following = None

    async def _bring_up_to_date(self) -> None:
        async with self._turn:
            while self._stale:
                stale, self._stale = self._stale, set()
                changes: list[Change] = []
                for path in sorted(stale):
                    known = await self._store.get(path)
                    if (None if known is None else known.version) == self._versions.get(path):
                        continue  # A change by this process, or one that has been read meanwhile.
                    try:
                        changes += _changes_at(self._image, path, known)
                    except DecodeError as error:
                        logger.error("the image of the cluster keeps what it had before: %s", error)
                    if known is None:
                        self._versions.pop(path, None)
                    else:
                        self._versions[path] = known.version
                if changes:
                    self._replace(self._image.apply(changes), changes)

    async def _reread(self) -> None:
        image, self._versions = await _read(self._store, self._image.cluster_id)
        changes = changes_between(self._image, image)
        if changes:
            self._replace(self._image.apply(changes), changes)

    def _replace(self, image: ClusterImage, changes: Sequence[Change]) -> None:
        before, self._image = self._image, image
        for changed in list(self._watches.values()):
            changed(before, image, changes)

    def _ended(self, task: asyncio.Task[object]) -> None:
        del self._running[task]
        if not task.cancelled():
            task.exception()  # Marks it as retrieved: the caller may be gone, and no other code needs the error.


class CommitRoom:
    """How many more bytes fit into one commit."""

    def __init__(self, bytes_max: int | None) -> None:
        self._left_bytes = bytes_max
        self._is_empty = True

    def takes(self, change: Change) -> bool:
        """Count this change, and return whether it fits into the commit. The first change always fits."""
        if self._left_bytes is None:
            return True
        self._left_bytes -= _size_bytes(change)
        is_first, self._is_empty = self._is_empty, False
        return is_first or self._left_bytes >= 0


def _size_bytes(change: Change) -> int:
    operation = _operation(change, _ANY_VERSION)
    return _OPERATION_BYTES + len(operation.path) + len(getattr(operation, "value", b""))


class _AnyVersion(dict[str, int]):
    def __missing__(self, path: str) -> int:
        return 0


_ANY_VERSION = _AnyVersion()


def _with_epoch(change: Change, version: int | None) -> Change:
    """Set the epoch of a broker that has registered: the version of its registration."""
    if isinstance(change, BrokerRegistered) and version is not None:
        return BrokerRegistered(replace(change.broker, epoch=version))
    return change


def _changes_at(image: ClusterImage, path: str, known: Versioned | None) -> list[Change]:
    """Return the changes of the cluster if a path has this value now, or none. Raises DecodeError."""
    value = None if known is None else known.value
    if path == paths.CONTROLLER:
        return [ControllerChanged(None if value is None else paths.decode_controller(value))]
    folder, _, name = path.rpartition("/")
    match folder:
        case paths.TOPICS:
            before, after = image.topics.get(name), None if value is None else paths.decode_topic(name, value)
            if before is not None and after is not None and before.id == after.id:
                return [] if before == after else [TopicAltered(after)]
            gone: list[Change] = [] if before is None else [TopicDeleted(before)]
            return gone if after is None else [*gone, TopicCreated(after)]
        case paths.BROKERS:
            node_id = int(name)
            if known is not None:
                return [BrokerRegistered(paths.decode_broker(node_id, known.value, known.version))]
            return [BrokerUnregistered(node_id)] if node_id in image.brokers else []
        case paths.BROKER_CONFIGS:
            configs = {} if value is None else paths.decode_configs(path, value)
            return [BrokerConfigsAltered(None if name == "default" else int(name), configs)]
        case paths.GROUP_CONFIGS | paths.CLIENT_METRICS:
            return [_configs_at(path, value)]
        case paths.ACLS | paths.USERS | paths.QUOTAS:
            return [_security_at(path, value)]
        case _:
            return []  # The value at this path is not part of the image.


def _configs_at(path: str, value: bytes | None) -> Change:
    from urllib.parse import unquote  # Imported here because most clusters do not need it.

    folder, _, name = path.rpartition("/")
    configs = {} if value is None else paths.decode_configs(path, value)
    altered = GroupConfigsAltered if folder == paths.GROUP_CONFIGS else ClientMetricsAltered
    return altered(unquote(name), configs)


def _security_at(path: str, value: bytes | None) -> Change:
    from semel.metadata.security.paths import decode_security  # Imported here because most clusters do not need it.

    return decode_security(path, value)


def _checks(decision: MetadataDecision[Any], versions: dict[str, int]) -> list[Check]:
    return [Check(path, versions.get(path)) for path in map(paths.broker_path, decision.brokers)]


def _nothing() -> None:
    """Do nothing: what ``close`` calls if the store was never followed."""


def _operation(change: Change, versions: dict[str, int]) -> Operation:
    match change:
        case TopicCreated(topic):
            return Put(paths.topic_path(topic.name), paths.encode_topic(topic), None)
        case TopicAltered(topic):
            path = paths.topic_path(topic.name)
            return Put(path, paths.encode_topic(topic), versions[path])
        case TopicDeleted(topic):
            path = paths.topic_path(topic.name)
            return Delete(path, versions[path])
        case BrokerConfigsAltered(node_id, configs):
            path = paths.broker_configs_path(node_id)
            return Put(path, paths.encode_configs(configs), versions.get(path))
        case GroupConfigsAltered(group_id, configs):
            return _configs_operation(paths.group_configs_path(group_id), configs, versions)
        case ClientMetricsAltered(name, configs):
            return _configs_operation(paths.client_metrics_path(name), configs, versions)
        case BrokerRegistered(broker):
            path = paths.broker_path(broker.node_id)
            return Put(path, paths.encode_broker(broker), versions.get(path), ephemeral=True)
        case BrokerUnregistered(node_id):
            path = paths.broker_path(node_id)
            return Delete(path, versions[path])
        case ControllerChanged(node_id):
            if node_id is None:
                return Delete(paths.CONTROLLER, versions[paths.CONTROLLER])
            value = paths.encode_controller(node_id)
            return Put(paths.CONTROLLER, value, versions.get(paths.CONTROLLER), ephemeral=True)
        case _:
            from semel.metadata.security.paths import encode_security, security_path

            path, kept = security_path(change), encode_security(change)
            return Delete(path, versions[path]) if kept is None else Put(path, kept, versions.get(path))


def _configs_operation(path: str, configs: Mapping[str, str], versions: dict[str, int]) -> Operation:
    return Put(path, paths.encode_configs(configs), versions.get(path)) if configs else Delete(path, versions[path])


async def _read(store: MetadataStore, cluster_id: str) -> tuple[ClusterImage, dict[str, int]]:
    versions: dict[str, int] = {}

    async def values(folder: str) -> list[tuple[str, bytes]]:
        found = []
        for name in await store.children(folder):
            path = f"{folder}/{name}"
            if (known := await store.get(path)) is not None:
                versions[path] = known.version
                found.append((name, known.value))
        return found

    topics: list[Topic] = [paths.decode_topic(name, value) for name, value in await values(paths.TOPICS)]
    brokers: list[Broker] = [
        paths.decode_broker(int(name), value, versions[f"{paths.BROKERS}/{name}"])
        for name, value in await values(paths.BROKERS)
    ]
    changes: list[Change] = [*map(TopicCreated, topics), *map(BrokerRegistered, brokers)]
    for name, value in await values(paths.BROKER_CONFIGS):
        node_id = None if name == "default" else int(name)
        changes.append(BrokerConfigsAltered(node_id, paths.decode_configs(f"{paths.BROKER_CONFIGS}/{name}", value)))
    for folder in (paths.GROUP_CONFIGS, paths.CLIENT_METRICS):
        changes += [_configs_at(f"{folder}/{name}", value) for name, value in await values(folder)]
    for folder in (paths.ACLS, paths.USERS, paths.QUOTAS):
        changes += [_security_at(f"{folder}/{name}", value) for name, value in await values(folder)]
    if (controller := await store.get(paths.CONTROLLER)) is not None:
        versions[paths.CONTROLLER] = controller.version
        changes.append(ControllerChanged(paths.decode_controller(controller.value)))
    return ClusterImage(cluster_id).apply(changes), versions
