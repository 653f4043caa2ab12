"""Elections: the controller elects new leaders for the partitions of brokers that are gone. Any broker removes the
registration of a broker whose machine refuses connections.

The law: an election is a compare-and-set like any other change. If two brokers elect at the same time, one of them has
a conflict and then finds no partition without a leader. A broker that was removed wrongly joins again under new epochs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Final

from semel.broker.node import Node
from semel.errors import StorageError
from semel.metadata.controller import MetadataDecision
from semel.metadata.election import PARTITIONS_PER_COMMIT, elect, lacks_a_leader
from semel.metadata.image import (
    BrokerRegistered,
    BrokerUnregistered,
    Change,
    ClusterImage,
    ControllerChanged,
    TopicAltered,
)

logger = logging.getLogger("semel.broker")

RETRY_S: Final = 0.2


class Elections:
    def __init__(self, node: Node, loop: asyncio.AbstractEventLoop) -> None:
        self._node = node
        self._loop = loop
        self._refusing: dict[int, int] = {}  # Brokers that refuse connections, with their epochs.
        self.held = 0
        """How many partitions were given another leader by this broker."""
        self._is_due = False
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False
        node.cluster.watch(self._changed)

    def begin(self) -> None:
        """Elect leaders for partitions without one, if this broker is the controller."""
        self._is_due = True
        if self._task is None and not self._is_closed:
            self._task = self._loop.create_task(self._run())

    def refused(self, node_id: int, broker_epoch: int) -> None:
        """Remove a registered broker whose machine refuses connections: its process is gone. Then elect leaders."""
        self._refusing[node_id] = broker_epoch
        self.begin()

    def close(self) -> None:
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()

    def _changed(self, before: ClusterImage, after: ClusterImage, changes: Sequence[Change]) -> None:
        if any(_calls_for_elections(change, after) for change in changes):
            self.begin()

    async def _run(self) -> None:
        try:
            while self._is_due and not self._is_closed:
                self._is_due = False
                try:
                    await self._elect()
                except StorageError as error:
                    logger.error("no election can be held, and it is tried again: %s", error)
                    await asyncio.sleep(RETRY_S)
                    self._is_due = True
        finally:
            self._task = None

    async def _elect(self) -> None:
        cluster = self._node.cluster
        gone, self._refusing = self._refusing, {}
        if gone:
            await cluster.change(lambda image: _without(image, gone))
        elif self._node.image.controller_id != self._node.config.node_id:
            return
        while (decided := await cluster.change(self._decide)).changes:
            self.held += sum(decided.results)

    def _decide(self, image: ClusterImage) -> MetadataDecision[int]:
        changes = self._node.cluster.fitting(elect(image, partitions_max=PARTITIONS_PER_COMMIT))
        moved = sum(
            before.leader != after.leader
            for change in changes
            if isinstance(change, TopicAltered)
            for before, after in zip(image.topics[change.topic.name].partitions, change.topic.partitions, strict=True)
        )
        return MetadataDecision(changes, (moved,))


def _calls_for_elections(change: Change, image: ClusterImage) -> bool:
    match change:
        case BrokerRegistered() | BrokerUnregistered() | ControllerChanged():
            return True
        case TopicAltered(topic):
            # Decided by a broker that did not know yet who has registered: the end of its leadership came too late for
            # the elections that followed the registration.
            return lacks_a_leader(image, topic)
        case _:
            return False


def _without(image: ClusterImage, gone: dict[int, int]) -> MetadataDecision[None]:
    changes: list[Change] = []
    for node_id, epoch in gone.items():
        known = image.brokers.get(node_id)
        if known is not None and known.epoch == epoch:
            logger.warning("broker %d refuses connections: its partitions are given to others", node_id)
            changes.append(BrokerUnregistered(node_id))
    return MetadataDecision(tuple(changes), ())
