"""Markers for partitions that other brokers lead: WriteTxnMarkers, one request per destination at a time.

While a request is under way, further markers for the same broker, of all transactions, are collected for the next
request. The law: each ``send`` is followed by exactly one call of the sender's ``acknowledged`` or ``refused``. If a
broker does not answer, all markers of the request are refused with NETWORK_EXCEPTION; the sender sends them again, to
the leader that the image then names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from itertools import islice
from typing import Final, NamedTuple, Protocol

from semel.broker.cluster.peers import Peers, Purpose
from semel.broker.cluster.single_in_flight import SingleInFlight
from semel.coordinator.transaction.results import WriteMarkers
from semel.errors import ErrorCode, named
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

# The receiver appends them in one turn of its loop.
MARKERS_PER_REQUEST: Final = 500


class MarkerSender(Protocol):
    """The sender of the markers of one transaction."""

    @property
    def effect(self) -> WriteMarkers: ...

    def acknowledged(self, topic_partition: TopicPartition) -> None: ...

    def refused(self, topic_partition: TopicPartition, code: ErrorCode) -> None: ...


class _Owed(NamedTuple):
    sender: MarkerSender
    topic_partition: TopicPartition


class RemoteMarkers:
    def __init__(self, peers: Peers, loop: asyncio.AbstractEventLoop) -> None:
        self._peers = peers
        self._loop = loop
        self._destinations: dict[int, _Destination] = {}

    def send(self, node_id: int, sender: MarkerSender, topic_partition: TopicPartition) -> None:
        destination = self._destinations.get(node_id)
        if destination is None:
            destination = self._destinations[node_id] = _Destination(node_id, self._peers, self._loop)
        destination.send(_Owed(sender, topic_partition))


class _Destination:
    def __init__(self, node_id: int, peers: Peers, loop: asyncio.AbstractEventLoop) -> None:
        self._node_id = node_id
        self._peers = peers
        self._requests = SingleInFlight(loop, self._send)
        self._waiting: dict[_Owed, None] = {}

    def send(self, owed: _Owed) -> None:
        self._waiting[owed] = None
        self._requests.begin()

    def _send(self) -> None:
        owed = list(islice(self._waiting, MARKERS_PER_REQUEST))
        for one in owed:
            del self._waiting[one]
        groups = _by_transaction(owed)
        request = WriteTxnMarkersRequest(markers=[_marker(group) for group in groups])

        def answered(response: WriteTxnMarkersResponse | None) -> None:
            codes = _codes(groups, response)
            try:
                for one in owed:
                    code = codes.get(one, ErrorCode.NETWORK_EXCEPTION)
                    if code is ErrorCode.NONE:
                        one.sender.acknowledged(one.topic_partition)
                    else:
                        one.sender.refused(one.topic_partition, code)
            finally:
                self._requests.ended(has_more=bool(self._waiting))

        self._peers.ask(self._node_id, Purpose.MARKERS, ApiKey.WRITE_TXN_MARKERS, request, answered)


def _by_transaction(owed: Iterable[_Owed]) -> list[list[_Owed]]:
    groups: dict[MarkerSender, list[_Owed]] = {}
    for one in owed:
        groups.setdefault(one.sender, []).append(one)
    return list(groups.values())


def _marker(group: list[_Owed]) -> WritableTxnMarker:
    effect = group[0].sender.effect
    topics: dict[str, list[int]] = {}
    for owed in group:
        topics.setdefault(owed.topic_partition.topic, []).append(owed.topic_partition.partition)
    return WritableTxnMarker(
        producer_id=effect.producer_id,
        producer_epoch=effect.producer_epoch,
        transaction_result=effect.committed,
        topics=[WritableTxnMarkerTopic(name, indexes) for name, indexes in topics.items()],
        coordinator_epoch=effect.coordinator_epoch,
        transaction_version=effect.transaction_version,
    )


def _codes(groups: list[list[_Owed]], response: WriteTxnMarkersResponse | None) -> dict[_Owed, ErrorCode]:
    """Return the error code of each marker. The response has the markers in the order of the request."""
    codes: dict[_Owed, ErrorCode] = {}
    if response is None:
        return codes
    for group, result in zip(groups, response.markers, strict=False):
        said = {
            TopicPartition(topic.name, partition.partition_index): partition.error_code
            for topic in result.topics
            for partition in topic.partitions
        }
        for owed in group:
            if owed.topic_partition in said:
                codes[owed] = named(said[owed.topic_partition])
    return codes
