"""Fetch (versions 4-18): reads record batches, with or without a fetch session, and waits until there are enough.

First the session of a request is determined (``fetch_sessions``). Then its partitions are read (``reading``). If there
are fewer bytes than the request wants, it waits (``delayed_fetch``). A follower's Fetch arrives at the listener of
brokers and is served in ``replication/follower_sessions``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from semel.broker.fetch.delayed_fetch import DelayedFetch
from semel.broker.fetch.fetch_sessions import (
    INITIAL_EPOCH,
    NO_SESSION,
    SESSION_PARTITIONS_MAX,
    FetchSession,
    FetchTarget,
    targets_of,
)
from semel.broker.fetch.reading import (
    SLICE_TARGETS,
    FetchParameters,
    Reading,
    partition_of,
    read_in_slices,
    read_targets,
)
from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.partitions.partitions import Partition
from semel.broker.requests.pieces import Piece
from semel.errors import KafkaError
from semel.log.outcomes import Isolation
from semel.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData

SESSIONS_SINCE: Final = 7
TOPIC_IDS_SINCE: Final = 13
REPLICA_STATE_SINCE: Final = 15


def fetch(
    node: Node, request: Request, message: FetchRequest
) -> FetchResponse | Coroutine[Any, Any, FetchResponse] | None:
    if request.is_from_broker:
        assert node.replicas is not None
        return node.replicas.sessions.fetch(request, message)
    parameters = _parameters(node, request, message)
    session: FetchSession | None = None
    new_session = False
    if message.session_epoch is None or message.session_epoch == INITIAL_EPOCH:
        if message.session_id != NO_SESSION:
            node.sessions.close(message.session_id)
        targets = targets_of(message)
        new_session = message.session_epoch == INITIAL_EPOCH and request.version >= SESSIONS_SINCE
    else:
        now_ms = node.clock.monotonic_ms()
        try:
            session = node.sessions.resume(message, uses_topic_ids=parameters.uses_topic_ids, now_ms=now_ms)
        except KafkaError as error:
            return FetchResponse(error_code=error.code)
        targets = [] if session is None else list(session.targets.values())

    def respond(reading: Reading) -> FetchResponse:
        node.metrics.fetched_bytes.value += reading.size_bytes
        if request.limits is not None:
            request.throttle(request.limits.fetched(reading.size_bytes))
        if new_session and len(targets) <= SESSION_PARTITIONS_MAX:
            return _first_answer(node, parameters, reading)
        if session is not None:
            return _answer(session.changed_results(reading.results), session.id)
        return _answer(reading.results, NO_SESSION)

    if len(targets) > SLICE_TARGETS:
        return _fetch_many(node, request, message, parameters, targets, respond)

    def read() -> Reading:
        return read_targets(node, targets, parameters, room_bytes=request.room_bytes())

    reading = read()
    waits = message.max_wait_ms > 0 and not reading.urgent and reading.size_bytes < parameters.min_bytes
    if not targets or not (waits or reading.must_wait_for_room):
        return respond(reading)
    partitions = _partitions(node, targets, parameters)
    _wait(node, request, message, parameters, partitions, reading, read, respond)
    return None


async def _fetch_many(
    node: Node,
    request: Request,
    message: FetchRequest,
    parameters: FetchParameters,
    targets: list[FetchTarget],
    respond: Callable[[Reading], FetchResponse],
) -> FetchResponse:
    """Serve a Fetch of so many partitions that they are read in slices, before and after the request waits."""
    reading = await node.turns.run(
        read_in_slices(node, targets, parameters, room_bytes=request.room_bytes()), elements=SLICE_TARGETS
    )
    enough = reading.urgent or reading.size_bytes >= parameters.min_bytes
    if message.max_wait_ms > 0 and not enough:
        request.in_slices = True
        await _wait_for_many(node, request, message, parameters, reading)
        reading = await node.turns.run(
            read_in_slices(node, targets, parameters, room_bytes=request.room_bytes()), elements=SLICE_TARGETS
        )
    return respond(reading)


async def _wait_for_many(
    node: Node, request: Request, message: FetchRequest, parameters: FetchParameters, reading: Reading
) -> None:
    """Wait until it is worth while to read the partitions of ``reading`` again."""
    if len(reading.results) > SESSION_PARTITIONS_MAX:
        # To watch all of these partitions would take longer than to read them again.
        await asyncio.sleep(message.max_wait_ms / 1000)
        return
    targets = [target for target, _ in reading.results]
    try:
        partitions = _partitions(node, targets, parameters)
    except KafkaError:
        return  # A partition is not led here any more, since its slice was read: reading it again returns that.
    if reading.size_bytes + 1 >= parameters.min_bytes and _has_more(partitions, parameters, reading):
        return
    piece = Piece(request, asyncio.get_running_loop())
    worth_reading = Reading([], parameters.min_bytes, urgent=True)
    waiting = piece.as_request()
    _wait(node, waiting, message, parameters, partitions, reading, lambda: worth_reading, lambda reading: None)
    request.delay(piece, hold=True)
    await piece.answered


def _has_more(partitions: list[Partition], parameters: FetchParameters, reading: Reading) -> bool:
    """Whether more records are visible in one of the partitions than when its slice was read."""
    if parameters.isolation is Isolation.READ_COMMITTED:
        return any(
            partition.log.last_stable_offset > data.last_stable_offset
            for partition, (_, data) in zip(partitions, reading.results, strict=True)
        )
    return any(
        partition.log.high_watermark > data.high_watermark
        for partition, (_, data) in zip(partitions, reading.results, strict=True)
    )


def _wait(
    node: Node,
    request: Request,
    message: FetchRequest,
    parameters: FetchParameters,
    partitions: list[Partition],
    reading: Reading,
    read: Callable[[], Reading],
    respond: Callable[[Reading], object],
) -> None:
    DelayedFetch(
        request,
        partitions,
        available_bytes=reading.size_bytes,
        min_bytes=parameters.min_bytes,
        max_wait_ms=message.max_wait_ms,
        committed_only=parameters.isolation is Isolation.READ_COMMITTED,
        deadlines=node.deadlines,
        read=read,
        respond=respond,
    )


def _parameters(node: Node, request: Request, message: FetchRequest) -> FetchParameters:
    version = request.version
    replica_id = message.replica_state.replica_id if version >= REPLICA_STATE_SINCE else message.replica_id
    # The request must not wait for more bytes than there is memory for in responses.
    max_bytes = min(message.max_bytes, node.config.fetch_max_bytes, request.room_bytes())
    if request.limits is not None and (quota_bytes := request.limits.fetch_bytes_max) is not None:
        max_bytes = min(max_bytes, quota_bytes)
    return FetchParameters(
        isolation=Isolation.READ_COMMITTED if message.isolation_level == 1 else Isolation.READ_UNCOMMITTED,
        min_bytes=min(message.min_bytes, max_bytes),
        max_bytes=max_bytes,
        uses_topic_ids=version >= TOPIC_IDS_SINCE,
        replica_id=replica_id,
        rights=node.rights(request),
    )


def _partitions(node: Node, targets: list[FetchTarget], parameters: FetchParameters) -> list[Partition]:
    return [partition_of(node, target, parameters) for target in targets]


def _first_answer(node: Node, parameters: FetchParameters, reading: Reading) -> FetchResponse:
    session = node.sessions.create(
        [target for target, _ in reading.results],
        privileged=False,
        uses_topic_ids=parameters.uses_topic_ids,
        now_ms=node.clock.monotonic_ms(),
    )
    for target, data in reading.results:
        target.update_sent(data)
    return _answer(reading.results, NO_SESSION if session is None else session.id)


def _answer(results: list[tuple[FetchTarget, PartitionData]], session_id: int) -> FetchResponse:
    topics: list[FetchableTopicResponse] = []
    for target, data in results:
        if not topics or (topics[-1].topic, topics[-1].topic_id) != (target.topic, target.topic_id):
            topics.append(FetchableTopicResponse(target.topic, target.topic_id, []))
        topics[-1].partitions.append(data)
    return FetchResponse(session_id=session_id, responses=topics)
