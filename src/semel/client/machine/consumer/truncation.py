"""The check after a change of leader (KIP-320): does the new leader have the records that were fetched?

It has, unless replicas that were behind were made to lead (an unclean election). Then the records after some offset are
other records, or none, and an offset alone does not show it. So before anything is fetched from a new leader, it is
asked where, in its log, the epoch of the last fetched record ends (OffsetForLeaderEpoch). Records behind that offset
are gone:

- held ready, but not returned: they are dropped and fetched again;
- returned: reading continues where the logs diverge, with a warning; if auto.offset.reset is none, that is an error.

A committed offset may have a newer epoch than the leader that is asked. Then another broker leads by now, and this one,
cut off from the cluster, does not know: its answer means nothing, and newer metadata is waited for. A topic that was
deleted and created again also has older epochs, so this ends after default.api.timeout.ms.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from random import Random
from typing import Any, NamedTuple

from semel.client.config.consumer import ConsumerConfig, OffsetReset
from semel.client.machine.connection.calls import Call
from semel.client.machine.connection.connections import COORDINATION, Connections, Route
from semel.client.machine.connection.metadata import Metadata
from semel.client.machine.connection.retry import Retry
from semel.client.machine.consumer.positions import Position, Positions
from semel.client.machine.producer.produce_errors import OUTDATED_METADATA
from semel.errors import ErrorCode, Family, client_error, family_of, named
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

log = logging.getLogger(__name__)


class _Asked(NamedTuple):
    position: Position
    generation: int
    fetch_offset: int
    fetch_epoch: int
    leader_epoch: int


class TruncationCheck:
    """Asks new leaders about positions that have to be checked. ``errors`` and ``out_of_range`` are the fetcher's."""

    def __init__(
        self,
        config: ConsumerConfig,
        positions: Positions,
        connections: Connections,
        metadata: Metadata,
        random: Random,
        *,
        errors: dict[TopicPartition, Exception],
        out_of_range: list[tuple[Position, int]],
    ) -> None:
        self._resets = config.auto_offset_reset is not OffsetReset.NONE
        self._patience_ms = config.default_api_timeout_ms
        self._positions = positions
        self._connections = connections
        self._metadata = metadata
        self._retry = Retry.of(config.client, random)
        self._errors = errors
        self._out_of_range = out_of_range
        self._asked: dict[TopicPartition, int] = {}
        """The partitions that are being checked, with the generation of the position."""
        self._outdated_until: dict[TopicPartition, tuple[int, float]] = {}
        """The partitions whose leader was older than the position, with its generation and how long that counts."""

    def poll(self, now_ms: float) -> None:
        by_route: dict[Route, dict[TopicPartition, _Asked]] = {}
        for position in self._positions:
            partition = self._metadata.view.partition(position.topic_partition)
            if partition is None or partition.leader is None or now_ms < position.retry_ms:
                continue
            # A Fetch in flight to the old leader may still bring records that have to be checked, too.
            if position.fetching or not position.has_to_be_checked(partition.leader_epoch):
                continue
            if self._asked.get(position.topic_partition) == position.generation:
                continue
            assert position.fetch_offset is not None
            assert position.fetch_epoch is not None
            assert partition.leader_epoch is not None
            by_route.setdefault(Route(partition.leader, COORDINATION), {})[position.topic_partition] = _Asked(
                position, position.generation, position.fetch_offset, position.fetch_epoch, partition.leader_epoch
            )
        for route, asked in by_route.items():
            if self._connections.ready(route, now_ms):
                self._ask(route, asked, now_ms)

    def _ask(self, route: Route, asked: Mapping[TopicPartition, _Asked], now_ms: float) -> None:
        def build(version: int) -> OffsetForLeaderEpochRequest:
            topics: dict[str, OffsetForLeaderTopic] = {}
            for (topic, index), one in asked.items():
                topics.setdefault(topic, OffsetForLeaderTopic(topic, [])).partitions.append(
                    OffsetForLeaderPartition(index, one.leader_epoch, one.fetch_epoch)
                )
            return OffsetForLeaderEpochRequest(None, list(topics.values()))

        def answered(response: Any, version: int, at_ms: float) -> None:
            self._answered(asked, response, at_ms)

        def lost(reason: str, at_ms: float) -> None:
            self._metadata.outdated()
            self._later(asked, at_ms)

        self._asked.update((topic_partition, one.generation) for topic_partition, one in asked.items())
        call = Call(ApiKey.OFFSET_FOR_LEADER_EPOCH, build=build, answered=answered, lost=lost)
        self._connections.send(route, call, now_ms)

    def _answered(
        self, asked: Mapping[TopicPartition, _Asked], response: OffsetForLeaderEpochResponse, now_ms: float
    ) -> None:
        unanswered = dict(asked)
        for topic in response.topics:
            for answer in topic.partitions:
                one = unanswered.get(TopicPartition(topic.topic, answer.partition))
                if one is not None and self._settled(one, answer, now_ms):
                    unanswered.pop(one.position.topic_partition)
                    self._asked.pop(one.position.topic_partition, None)
        if unanswered:
            self._later(unanswered, now_ms)
        else:
            self._retry = self._retry.succeeded()

    def _settled(self, asked: _Asked, answer: EpochEndOffset, now_ms: float) -> bool:
        """Handle the answer about one partition. Returns ``False`` if it must be asked about again."""
        position = asked.position
        if position.generation != asked.generation:
            return True  # The position has changed since.
        code = answer.error_code
        if code != ErrorCode.NONE:
            if code in OUTDATED_METADATA:
                self._metadata.outdated()
            if family_of(code) is not Family.RETRIABLE:
                text = f"{position.topic_partition} cannot be read: the broker answered {named(code).name}"
                self._errors[position.topic_partition] = client_error(code, text)
            return False
        if asked.fetch_epoch > asked.leader_epoch and self._may_be_outdated(asked, now_ms):
            self._metadata.outdated()
            return False
        if answer.leader_epoch is None or answer.end_offset is None:
            self._out_of_range.append((position, asked.generation))  # The leader knows no epoch as old as that.
            return self._resets
        if answer.end_offset >= asked.fetch_offset:
            position.checked_epoch = asked.leader_epoch
            return True
        return self._diverged(asked, answer.leader_epoch, answer.end_offset)

    def _may_be_outdated(self, asked: _Asked, now_ms: float) -> bool:
        """Whether to wait for newer metadata, because the record before the position came from a newer leader."""
        topic_partition = asked.position.topic_partition
        generation, until_ms = self._outdated_until.get(topic_partition, (None, 0.0))
        if generation != asked.generation:
            until_ms = now_ms + self._patience_ms
            self._outdated_until[topic_partition] = asked.generation, until_ms
            log.info(
                "%s: the position comes from leader epoch %d, and the leader that is known has epoch %d; waiting for "
                "newer metadata",
                topic_partition,
                asked.fetch_epoch,
                asked.leader_epoch,
            )
        return now_ms < until_ms

    def _diverged(self, asked: _Asked, leader_epoch: int, end_offset: int) -> bool:
        position = asked.position
        assert position.offset is not None
        if end_offset >= position.offset:
            position.seek(position.offset, position.offset_epoch)
            return True
        text = (
            f"{position.topic_partition}: records were read up to offset {position.offset}; of those, the new leader "
            f"(epoch {asked.leader_epoch}) has none from offset {end_offset} on"
        )
        if not self._resets:
            text += f", and auto.offset.reset is none: seek to {end_offset}, or where you want to read on"
            self._errors[position.topic_partition] = client_error(ErrorCode.OFFSET_OUT_OF_RANGE, text)
            return False
        log.warning("%s; reading on at %s", text, end_offset)
        position.seek(end_offset, leader_epoch)
        return True

    def _later(self, asked: Mapping[TopicPartition, _Asked], now_ms: float) -> None:
        self._retry = self._retry.failed(now_ms)
        for topic_partition, one in asked.items():
            self._asked.pop(topic_partition, None)
            if one.position.generation == one.generation:
                one.position.retry_ms = self._retry.due_ms
