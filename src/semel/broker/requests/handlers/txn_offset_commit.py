"""TxnOffsetCommit (versions 0-5): writes offsets of a group that become visible when the transaction commits.

The partition of ``__consumer_offsets`` is a partition of the transaction like any other. From version 5 on
(transactions V2) it is added to the transaction here; before, AddOffsetsToTxn has to add it, which is verified first.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from semel.broker.coordinators.shard_runtime import ShardRuntime
from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.produce.transaction_admission import Refusals, admit, error_for_client
from semel.broker.requests.handlers.offset_commit_partitions import OffsetCommitPartitions, generation_of
from semel.coordinator.decision import Waiter
from semel.coordinator.group.decisions import GroupDecision
from semel.coordinator.group.membership import Committer
from semel.coordinator.group.offsets.offset_results import CommitRequest, CommitResult, OffsetToCommit
from semel.coordinator.group.shard import GroupShard
from semel.errors import ErrorCode
from semel.types import ProducerIdentity
from semel.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

LOADING_KNOWN_SINCE: Final = 2
ABORTABLE_KNOWN_SINCE: Final = 4
V2_SINCE: Final = 5


def txn_offset_commit(node: Node, request: Request, message: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse | None:
    response = TxnOffsetCommitResponse()
    partitions = OffsetCommitPartitions()
    for asked in message.topics:
        results = [TxnOffsetCommitResponsePartition(partition.partition_index) for partition in asked.partitions]
        response.topics.append(TxnOffsetCommitResponseTopic(asked.name, results))
        partitions.add(node.image.topics.get(asked.name), asked.partitions, results)
    if not partitions.offsets:
        return response

    def respond(result: CommitResult) -> None:
        partitions.answer(_for_version(error, request.version) for error in result.errors)
        request.answer_delayed(lambda: response)

    _commit(node, request, message, partitions.offsets, Waiter(respond, refused=partitions.refused))
    return None


def _commit(
    node: Node,
    request: Request,
    message: TxnOffsetCommitRequest,
    offsets: list[OffsetToCommit],
    waiter: Waiter[CommitResult],
) -> None:
    producer = ProducerIdentity(message.producer_id, message.producer_epoch)
    committer = Committer(message.member_id, generation_of(message.generation_id), message.group_instance_id)
    commit = CommitRequest(message.group_id, committer, offsets, request.version)
    groups = node.coordinators.groups
    runtime = groups.runtime(groups.partition_for(message.group_id))

    def decide(shard: GroupShard) -> GroupDecision[CommitResult]:
        return shard.offsets.commit_transactional(commit, producer, now_ms=node.clock.now_ms())

    def admitted(runtime: ShardRuntime[GroupShard], refusals: Refusals) -> None:
        for error in refusals.values():
            waiter.refuse(error)
            return
        if _is_over(node, runtime):
            waiter.refuse(ErrorCode.NOT_COORDINATOR)
            return
        groups.run(message.group_id, decide, waiter, producer=producer)

    if not message.group_id:
        waiter.refuse(ErrorCode.INVALID_GROUP_ID)
    elif runtime is None or runtime.refusal is not None:
        groups.run(message.group_id, decide, waiter)  # This refuses the request with the reason.
    else:
        waiting = admit(
            node,
            message.transactional_id,
            producer,
            [runtime.partition],
            adds=request.version >= V2_SINCE,
            respond=partial(admitted, runtime),
        )
        request.hold_until_answered(waiting)


def _is_over(node: Node, runtime: ShardRuntime[GroupShard]) -> bool:
    """Whether the term of leadership in which the transaction's coordinator was asked has ended.

    Its response must not be used in the next term: a marker may have been written there and have ended nothing.
    """
    return node.coordinators.groups.runtime(runtime.partition.topic_partition.partition) is not runtime


def _for_version(error: ErrorCode, version: int) -> ErrorCode:
    if error is ErrorCode.NETWORK_EXCEPTION:
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS  # The client has to retry at this coordinator.
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < LOADING_KNOWN_SINCE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE  # Older producers fail with the other code (KAFKA-7296).
    return error_for_client(error, knows_abortable=version >= ABORTABLE_KNOWN_SINCE)
