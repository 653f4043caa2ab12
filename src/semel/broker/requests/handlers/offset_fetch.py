"""OffsetFetch (versions 1-10): the committed offsets of one group up to version 7, of many groups from 8 on.

With ``require_stable`` an offset that an open transaction may still change is not returned: the error is
UNSTABLE_OFFSET_COMMIT, and the client retries (KIP-447). Null topics (from version 2 on) ask for all offsets of a
group. That may be an offset of every partition of the cluster, so they are looked up in slices, and the number of
offsets in one response is limited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import groupby
from typing import Any, Final, NamedTuple
from uuid import UUID

from semel.broker.coordinators.every_shard import respond_to
from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.requests.handlers.ask_each import Respond, ask_each
from semel.coordinator.decision import Waiter
from semel.coordinator.group.offsets.offset_results import FetchedOffset, FetchResult, PartitionToFetch
from semel.errors import ErrorCode
from semel.security.rights import DESCRIBE_GROUP, DESCRIBE_TOPIC, Rights
from semel.types import ZERO_UUID
from semel.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

SLICE_OFFSETS: Final = 500
ANSWER_OFFSETS_MAX: Final = 300_000
"""The maximum number of offsets in a response, because a request may name a group a thousand times.

Groups after that are refused.
"""
GROUPS_SINCE: Final = 8
TOPIC_IDS_SINCE: Final = 10


def offset_fetch(
    node: Node, request: Request, message: OffsetFetchRequest
) -> Coroutine[Any, Any, OffsetFetchResponse] | None:
    rights = node.rights(request)
    groups = message.groups if request.version >= GROUPS_SINCE else [_the_one_group(message)]
    if any(group.topics is None for group in groups):
        return _with_everything(node, request, message, groups)

    def fetch(group: OffsetFetchRequestGroup, respond: Respond[OffsetFetchResponseGroup]) -> None:
        names = _names(node, group, request.version, rights)
        wanted = _wanted(node, group.topics or [], names)

        def looked_up(result: FetchResult) -> None:
            respond(_answer(group, names, result, request.version))

        _look_up(node, message, group, wanted, rights, looked_up)

    ask_each(request, groups, fetch, lambda fetched: _response(fetched, request.version))
    return None


def _look_up(
    node: Node,
    message: OffsetFetchRequest,
    group: OffsetFetchRequestGroup,
    wanted: list[PartitionToFetch] | None,
    rights: Rights | None,
    respond: Callable[[FetchResult], None],
) -> None:
    if rights is not None and not rights.demand(DESCRIBE_GROUP, group.group_id):
        respond(FetchResult(DESCRIBE_GROUP.refusal))
        return
    node.coordinators.groups.run(
        group.group_id,
        lambda shard: shard.offsets.fetch(
            group.group_id,
            wanted,
            require_stable=message.require_stable,
            member_id=group.member_id,
            member_epoch=group.member_epoch,
            at_most=SLICE_OFFSETS,
        ),
        Waiter(respond, FetchResult),
    )


async def _with_everything(
    node: Node, request: Request, message: OffsetFetchRequest, groups: list[OffsetFetchRequestGroup]
) -> OffsetFetchResponse:
    """Serve a request for all offsets of a group, or of several groups, in slices."""
    loop = asyncio.get_running_loop()
    rights = node.rights(request)

    async def look_up(group: OffsetFetchRequestGroup, wanted: list[PartitionToFetch] | None) -> FetchResult:
        found: asyncio.Future[FetchResult] = loop.create_future()
        _look_up(node, message, group, wanted, rights, respond_to(found))
        result = await found
        node.turns.worked(len(result.offsets))
        request.response_elements += len(result.offsets)
        return result

    answers = []
    for number, group in enumerate(groups):
        if number:
            await node.turns.pause()
        if request.response_elements >= ANSWER_OFFSETS_MAX:
            answers.append(_answer(group, [], FetchResult(ErrorCode.INVALID_REQUEST), request.version))
            continue
        if group.topics is not None:
            names = _names(node, group, request.version, rights)
            result = await look_up(group, _wanted(node, group.topics, names))
            answers.append(_answer(group, names, result, request.version))
            continue
        result = await look_up(group, None)
        answer = _answer(group, [], result, request.version)
        answers.append(answer)
        rest = result.rest
        _add(node, answer, result.offsets, request.version, rights)
        for start in range(0, len(rest), SLICE_OFFSETS):
            await node.turns.pause()
            some = [PartitionToFetch(topic, partition) for topic, partition in rest[start : start + SLICE_OFFSETS]]
            result = await look_up(group, some)
            if result.error is not ErrorCode.NONE:
                answers[-1] = _answer(group, [], result, request.version)
                break
            _add(node, answer, result.offsets, request.version, rights)
    if request.version >= GROUPS_SINCE:
        return OffsetFetchResponse(groups=answers)
    (only,) = answers
    response = OffsetFetchResponse(error_code=only.error_code)
    for topic in only.topics:
        response.topics.append(OffsetFetchResponseTopic(topic.name, []))
        for start in range(0, len(topic.partitions), SLICE_OFFSETS):
            response.topics[-1].partitions += map(_in_old_form, topic.partitions[start : start + SLICE_OFFSETS])
            await node.turns.pause()
    return response


def _the_one_group(message: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = None
    if message.topics is not None:
        topics = [OffsetFetchRequestTopics(topic.name, ZERO_UUID, topic.partition_indexes) for topic in message.topics]
    return OffsetFetchRequestGroup(message.group_id, topics=topics)


class _Named(NamedTuple):
    """A topic of the request: its name, or the error for its partitions."""

    name: str = ""
    error: ErrorCode = ErrorCode.NONE


def _names(node: Node, group: OffsetFetchRequestGroup, version: int, rights: Rights | None) -> list[_Named]:
    known = node.image.topics_by_id
    names = []
    for topic in group.topics or ():
        named = _Named(topic.name)
        if version >= TOPIC_IDS_SINCE:
            found = known.get(topic.topic_id)
            named = _Named(error=ErrorCode.UNKNOWN_TOPIC_ID) if found is None else _Named(found.name)
        if rights is not None and not named.error and not rights.demand(DESCRIBE_TOPIC, named.name):
            named = _Named(error=DESCRIBE_TOPIC.refusal)
        names.append(named)
    return names


def _wanted(node: Node, topics: list[OffsetFetchRequestTopics], names: list[_Named]) -> list[PartitionToFetch]:
    """Return the partitions to look up, with the current id of their topic.

    An offset that was committed for a deleted topic of the same name must not be returned.
    """
    known = node.image.topics
    return [
        PartitionToFetch(name, index, known[name].id if name in known else None)
        for topic, (name, error) in zip(topics, names, strict=True)
        if not error
        for index in topic.partition_indexes
    ]


def _answer(
    group: OffsetFetchRequestGroup,
    names: list[_Named],
    result: FetchResult,
    version: int,
) -> OffsetFetchResponseGroup:
    if result.error is not ErrorCode.NONE:
        return OffsetFetchResponseGroup(
            group.group_id, _refused(group.topics or [], result.error, version), result.error
        )
    if group.topics is None:
        return OffsetFetchResponseGroup(group.group_id, [])
    found = iter(result.offsets)
    topics = []
    for topic, (_, error) in zip(group.topics, names, strict=True):
        if error:
            topics += _refused([topic], error, version, always=True)
        else:
            partitions = [_partition(next(found)) for _ in topic.partition_indexes]
            topics.append(OffsetFetchResponseTopics(topic.name, topic.topic_id, partitions))
    return OffsetFetchResponseGroup(group.group_id, topics)


def _add(
    node: Node,
    answer: OffsetFetchResponseGroup,
    offsets: tuple[FetchedOffset, ...],
    version: int,
    rights: Rights | None,
) -> None:
    """Append some of the group's offsets to the response, in their order.

    Offsets that were deleted meanwhile, and those of topics that the client may not describe, are left out.
    """
    topics = answer.topics
    there = (fetched for fetched in offsets if fetched.offset is not None or fetched.error is not ErrorCode.NONE)
    for name, group in groupby(there, key=lambda fetched: fetched.topic):
        if rights is not None and not rights.may(DESCRIBE_TOPIC, name):
            continue
        topic_id: UUID = ZERO_UUID
        if version >= TOPIC_IDS_SINCE:
            known = node.image.topics.get(name)
            if known is None:
                continue  # The response has topic ids only, and a deleted topic has none.
            topic_id = known.id
        if not topics or topics[-1].name != name:
            topics.append(OffsetFetchResponseTopics(name, topic_id, []))
        topics[-1].partitions += map(_partition, group)


def _refused(
    topics: list[OffsetFetchRequestTopics], code: ErrorCode, version: int, *, always: bool = False
) -> list[OffsetFetchResponseTopics]:
    """Return the topics with the error for each partition, in versions without an error for the group or if ``always``.

    This is also for aiokafka (0.14), which checks only the errors of partitions, and takes a response without
    partitions for a group without committed offsets: while the coordinator loads, its consumers would start from the
    beginning and overwrite the committed offsets.
    """
    if version >= GROUPS_SINCE and not always:
        return []
    return [
        OffsetFetchResponseTopics(
            topic.name,
            topic.topic_id,
            [OffsetFetchResponsePartitions(index, metadata="", error_code=code) for index in topic.partition_indexes],
        )
        for topic in topics
    ]


def _partition(fetched: FetchedOffset) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        fetched.partition,
        fetched.offset,
        fetched.leader_epoch,
        fetched.metadata,
        fetched.error,
    )


def _response(groups: list[OffsetFetchResponseGroup], version: int) -> OffsetFetchResponse:
    if version >= GROUPS_SINCE:
        return OffsetFetchResponse(groups=groups)
    (group,) = groups
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(topic.name, [_in_old_form(partition) for partition in topic.partitions])
            for topic in group.topics
        ],
        error_code=group.error_code,
    )


def _in_old_form(partition: OffsetFetchResponsePartitions) -> OffsetFetchResponsePartition:
    return OffsetFetchResponsePartition(
        partition.partition_index,
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.metadata,
        partition.error_code,
    )
