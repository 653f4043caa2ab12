"""The cluster's image, kept equal to the metadata store.

``change`` is the one way to alter the cluster: decide on the image, commit what was decided, then replace the image.
One change runs at a time, so each is decided on what the last one left; if another process was faster, the store says
so (``VersionConflict``), the image is read again, and the decision is taken again. A caller that goes away in the
middle makes no difference: what the store has, the image gets. Where other processes change the store too, ``follow``
brings their changes into the image, path by path.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar, assert_never

from semel.errors import DecodeError, StorageError
from semel.metadata import paths
from semel.metadata.controller import Decision
from semel.metadata.image import (
    Broker,
    BrokerConfigsAltered,
    BrokerRegistered,
    BrokerUnregistered,
    Change,
    ClusterImage,
    Topic,
    TopicAltered,
    TopicCreated,
    TopicDeleted,
    changes_between,
)
from semel.metadata.store import Delete, MetadataStore, Operation, Put, VersionConflict

logger = logging.getLogger("semel.metadata")

Result = TypeVar("Result")
Changed: TypeAlias = Callable[[ClusterImage, ClusterImage, Sequence[Change]], None]

# Every conflict means that another commit got through; this many in a row means that something is wrong.
_ATTEMPTS_MAX = 100


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

    @classmethod
    async def load(cls, store: MetadataStore, *, new_cluster_id: Callable[[], str]) -> ClusterMetadata:
        """Read the cluster, or found it: the first one to ask gives it its id."""
        while (known := await store.get(paths.CLUSTER_ID)) is None:
            try:
                await store.compare_and_set(paths.CLUSTER_ID, new_cluster_id().encode(), None)
            except VersionConflict:
                continue  # Another broker founded it meanwhile.
        image, versions = await _read(store, known.value.decode())
        return cls(store, image, versions)

    @property
    def image(self) -> ClusterImage:
        return self._image

    async def change(self, decide: Callable[[ClusterImage], Decision[Result]]) -> Decision[Result]:
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
        """From now on, what other processes change is in the image soon after it is in the store."""
        self._stop_following = self._store.watch("/", self._changed_in_store)

    async def close(self) -> None:
        """Wait for the changes that are under way. The store belongs to the code that opened it."""
        self._stop_following()
        following = [] if self._following is None else [self._following]
        await asyncio.gather(*self._running, *following, return_exceptions=True)

    async def _change(self, decide: Callable[[ClusterImage], Decision[Result]]) -> Decision[Result]:
        async with self._turn:
            for attempt in range(_ATTEMPTS_MAX):
                decision = decide(self._image)
                if not decision.changes:
                    return decision
                operations = [_operation(change, self._versions) for change in decision.changes]
                try:
                    versions = await self._store.commit(operations)
                except VersionConflict:
                    if attempt == _ATTEMPTS_MAX - 1:
                        raise
                    await self._reread()
                    continue
                for operation, version in zip(operations, versions, strict=True):
                    if version is None:
                        self._versions.pop(operation.path, None)
                    else:
                        self._versions[operation.path] = version
                self._replace(self._image.apply(decision.changes), decision.changes)
                return decision
        raise AssertionError("unreachable: the last attempt returns or raises")

    def _changed_in_store(self, path: str) -> None:
        self._stale.add(path)
        if self._following is None:
            self._following = asyncio.ensure_future(self._read_stale())

    async def _read_stale(self) -> None:
        try:
            await self._bring_up_to_date()
        except (DecodeError, StorageError) as error:
            logger.error("the image of the cluster is as of an earlier change: %s", error)
        finally:
            self._following = None

    async def _bring_up_to_date(self) -> None:
        while self._stale:
            async with self._turn:
                stale, self._stale = self._stale, set()
                changes: list[Change] = []
                for path in sorted(stale):
                    known = await self._store.get(path)
                    if (None if known is None else known.version) == self._versions.get(path):
                        continue  # A change of this process, or one that was read again meanwhile.
                    if known is None:
                        self._versions.pop(path, None)
                    else:
                        self._versions[path] = known.version
                    changes += _changes_at(self._image, path, None if known is None else known.value)
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
            task.exception()  # Its caller may be gone, and no other code needs the error.


def _changes_at(image: ClusterImage, path: str, value: bytes | None) -> list[Change]:
    """What it means for the cluster that a path has this value now, or none."""
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
            if value is not None:
                return [BrokerRegistered(paths.decode_broker(node_id, value))]
            return [BrokerUnregistered(node_id)] if node_id in image.brokers else []
        case paths.BROKER_CONFIGS:
            configs = {} if value is None else paths.decode_configs(path, value)
            return [BrokerConfigsAltered(None if name == "default" else int(name), configs)]
        case _:
            return []  # Nothing of the image.


def _nothing() -> None:
    """Used until the store is followed."""


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
        case BrokerRegistered(broker):
            path = paths.broker_path(broker.node_id)
            return Put(path, paths.encode_broker(broker), versions.get(path), ephemeral=True)
        case BrokerUnregistered(node_id):
            path = paths.broker_path(node_id)
            return Delete(path, versions[path])
        case _:
            assert_never(change)


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
    brokers: list[Broker] = [paths.decode_broker(int(name), value) for name, value in await values(paths.BROKERS)]
    changes: list[Change] = [*map(TopicCreated, topics), *map(BrokerRegistered, brokers)]
    for name, value in await values(paths.BROKER_CONFIGS):
        node_id = None if name == "default" else int(name)
        changes.append(BrokerConfigsAltered(node_id, paths.decode_configs(f"{paths.BROKER_CONFIGS}/{name}", value)))
    return ClusterImage(cluster_id).apply(changes), versions
