"""What a member does about an error code: one table, by request.

A request whose error code is not in the table is sent again if the code is retriable. Otherwise it fails, and with it
the membership if that needs the request.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from semel.errors import ErrorCode, Family, family_of, named
from semel.wire.apis import ApiKey


class Reaction(Enum):
    RETRY = "send the request again after a pause"
    FIND_COORDINATOR = "the coordinator has moved: look it up, then send the request again"
    TAKE_MEMBER_ID = "join again with the member id of the response"
    JOIN = "the group is rebalancing: join again, as the same member"
    LOSE_GENERATION = (
        "the group has a newer generation without this member: its partitions are lost; join again, as the same member"
    )
    LOSE_MEMBERSHIP = "the group does not know this member: its partitions are lost; join again as a new one"
    AWAIT_EPOCH = "the member has a newer epoch, or will soon: send the request again with that epoch"
    RAISE = "the request cannot be fulfilled: the application gets the error, and the member stays in the group"
    FATAL = "this consumer can no longer be a member: the application gets the error"


_COORDINATOR: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Reaction.RETRY,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Reaction.FIND_COORDINATOR,
    ErrorCode.NOT_COORDINATOR: Reaction.FIND_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT: Reaction.FIND_COORDINATOR,
    ErrorCode.FENCED_INSTANCE_ID: Reaction.FATAL,
}
_MEMBER: Final = {
    **_COORDINATOR,
    ErrorCode.REBALANCE_IN_PROGRESS: Reaction.JOIN,
    ErrorCode.ILLEGAL_GENERATION: Reaction.LOSE_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID: Reaction.LOSE_MEMBERSHIP,
}

REACTIONS: Final[Mapping[ApiKey, Mapping[ErrorCode, Reaction]]] = {
    ApiKey.JOIN_GROUP: {**_MEMBER, ErrorCode.MEMBER_ID_REQUIRED: Reaction.TAKE_MEMBER_ID},
    ApiKey.SYNC_GROUP: _MEMBER,
    ApiKey.HEARTBEAT: _MEMBER,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: {
        **_COORDINATOR,
        ErrorCode.FENCED_MEMBER_EPOCH: Reaction.LOSE_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID: Reaction.LOSE_MEMBERSHIP,
        # The previous member with this instance id was killed, and its session has not ended yet.
        ErrorCode.UNRELEASED_INSTANCE_ID: Reaction.FATAL,
    },
    ApiKey.OFFSET_COMMIT: {
        **_MEMBER,
        ErrorCode.STALE_MEMBER_EPOCH: Reaction.AWAIT_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH: Reaction.LOSE_GENERATION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Reaction.RETRY,
    },
    ApiKey.OFFSET_FETCH: {
        **_COORDINATOR,
        # An open transaction may still change the offset, so the current one must not be read from.
        ErrorCode.UNSTABLE_OFFSET_COMMIT: Reaction.RETRY,
        ErrorCode.STALE_MEMBER_EPOCH: Reaction.AWAIT_EPOCH,
        ErrorCode.ILLEGAL_GENERATION: Reaction.LOSE_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID: Reaction.LOSE_MEMBERSHIP,
    },
}


# Requests without which there is no membership. For the others, an error ends only that request.
_VITAL: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT})


def reaction_to(api_key: ApiKey, code: int) -> Reaction:
    known = REACTIONS[api_key].get(named(code))
    if known is not None:
        return known
    if family_of(code) is Family.RETRIABLE:
        return Reaction.RETRY
    return Reaction.FATAL if api_key in _VITAL else Reaction.RAISE
