"""Selects the fields of the requests and responses of groups that a trace shows."""

from __future__ import annotations

from typing import Any

from semel.errors import DecodeError
from semel.testing.tracing.summary_values import Fields, Names, each_partition, present
from semel.wire.messages.consumer_protocol import decode_assignment, decode_subscription, flattened


def committed(request: Any, names: Names) -> list[Fields]:
    return [
        {"partition": name, "offset": entry.committed_offset}
        for name, entry in each_partition(request.topics, "partitions", "partition_index", names)
    ]


def offset_commit_request(request: Any, names: Names) -> Fields:
    return {
        "group": request.group_id,
        "generation": request.generation_id_or_member_epoch,
        "offsets": committed(request, names),
    }


def offset_fetch_request(request: Any, names: Names) -> Fields:
    groups = [group.group_id for group in request.groups] or [request.group_id]
    return {"groups": groups, "require_stable": request.require_stable}


def offset_fetch_response(response: Any, names: Names) -> Fields:
    topics = [topic for group in response.groups for topic in group.topics] or response.topics
    return {
        "offsets": [
            present({"partition": name, "offset": entry.committed_offset})
            for name, entry in each_partition(topics, "partitions", "partition_index", names)
        ]
    }


def join_request(request: Any, names: Names) -> Fields:
    return {
        "group": request.group_id,
        "member": request.member_id,
        "assignors": [protocol.name for protocol in request.protocols],
        "topics": _subscribed(request.protocols[0].metadata) if request.protocols else None,
        "reason": request.reason or None,
    }


def join_response(response: Any, names: Names) -> Fields:
    return {
        "generation": response.generation_id,
        "assignor": response.protocol_name,
        "is_leader": response.leader == response.member_id,
        "member": response.member_id,
        "members": len(response.members) or None,
    }


def sync_request(request: Any, names: Names) -> Fields:
    return {
        "group": request.group_id,
        "generation": request.generation_id,
        "assignments": [
            {"member": one.member_id, "partitions": _assigned(one.assignment)} for one in request.assignments
        ],
    }


def sync_response(response: Any, names: Names) -> Fields:
    return {"partitions": _assigned(response.assignment)}


def heartbeat_request(request: Any, names: Names) -> Fields:
    return {"group": request.group_id, "generation": request.generation_id}


def _subscribed(data: bytes) -> list[str] | None:
    try:
        return decode_subscription(data).topics
    except DecodeError:
        return None  # Not the consumer protocol: the group has another protocol type.


def _assigned(data: bytes) -> list[str] | None:
    try:
        return [f"{topic}:{index}" for topic, index in flattened(decode_assignment(data).assigned_partitions)]
    except DecodeError:
        return None
