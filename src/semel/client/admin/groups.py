"""Groups: list, describe, delete, and their committed offsets. Each request goes to the group's coordinator."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from semel.client.admin.admin_requests import AdminRequests, named_broker, this_broker
from semel.client.admin.group_descriptions import DESCRIBE_CLASSIC, DESCRIBE_CONSUMER, GroupDescription
from semel.client.admin.group_offsets import commit_offsets, delete_offsets, fetch_offsets, named_group
from semel.client.admin.results import Results
from semel.client.machine.admin.ask import Ask, coordinator_of_group, outcome
from semel.client.offsets import OffsetsLike, PartitionLike, as_offsets, as_partition
from semel.client.values import OffsetAndMetadata
from semel.errors import ErrorCode
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.delete_groups import DeleteGroupsRequest
from semel.wire.messages.list_groups import ListGroupsRequest

_STATES_SINCE: Final = 4
_TYPES_SINCE: Final = 5

_NOT_OF_THIS_PROTOCOL: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})


@dataclass(frozen=True, slots=True)
class GroupListing:
    """One group of a list. ``state`` and ``type`` are ``None`` if the broker is too old to return them."""

    group_id: str
    protocol_type: str
    state: str | None
    type: str | None

    @property
    def is_simple(self) -> bool:
        """Whether it has offsets only, and never had members."""
        return not self.protocol_type


class Groups:
    """``admin.groups``: list, describe and delete groups, and read and change their committed offsets."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    async def list(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> tuple[GroupListing, ...]:
        """Return every group, of all coordinators, by name; with ``states`` or ``types`` only those that match.

        for group in await admin.groups.list(states=["Stable"], types=["consumer"]): print(group.group_id)
        """
        answers = await self._requests.begin().of_each_broker(_list(list(states), list(types)))
        # While a coordinator moves, two brokers may name the same group.
        groups = {group.group_id: group for listed in answers.values() for group in listed}
        return tuple(groups[group_id] for group_id in sorted(groups))

    async def describe(self, group_id: str) -> GroupDescription:
        """Return a group's state and members, of either protocol; raises GROUP_ID_NOT_FOUND if there is none.

        for member in (await admin.groups.describe("billing")).members: print(member.client_id, member.assignment)
        """
        return (await self.describe_many([group_id]))[group_id]

    async def describe_many(self, group_ids: Iterable[str]) -> Results[str, GroupDescription]:
        """Return the descriptions of many groups, as ``describe`` does for one.

        results = await admin.groups.describe_many(["billing", "reports"])
        """
        call = self._requests.begin()
        first = await call.many(DESCRIBE_CONSUMER, group_ids)
        # A group that is unknown in the newer protocol, or whose broker does not have it, may be a classic one.
        others = [group_id for group_id, error in first.failed.items() if error.code in _NOT_OF_THIS_PROTOCOL]
        second = await call.many(DESCRIBE_CLASSIC, others)
        return first.updated(second)

    async def delete(self, group_id: str) -> None:
        """Delete a group and its offsets; raises NON_EMPTY_GROUP while it has members.

        await admin.groups.delete("billing")
        """
        await self._requests.one(_DELETE, group_id)

    async def delete_many(self, group_ids: Iterable[str]) -> Results[str, None]:
        """Delete many groups, as ``delete`` does one.

        (await admin.groups.delete_many(["billing", "reports"])).all()
        """
        return await self._requests.many(_DELETE, group_ids)

    async def list_offsets(
        self, group_id: str, partitions: Iterable[PartitionLike] | None = None, *, require_stable: bool = False
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return a group's committed offsets, by partition; partitions without one are left out.

        ``require_stable`` waits for transactions that may still change an offset.

        committed = await admin.groups.list_offsets("billing")
        """
        wanted = None if partitions is None else [as_partition(partition) for partition in partitions]
        return await self._requests.one(fetch_offsets(wanted, require_stable), group_id)

    async def list_offsets_many(
        self, group_ids: Iterable[str]
    ) -> Results[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Return the offsets of many groups, one request to each coordinator (Kafka 3.0; else UNSUPPORTED_VERSION).

        results = await admin.groups.list_offsets_many(["billing", "reports"])
        """
        return await self._requests.many(fetch_offsets(None, False, many_groups=True), group_ids)

    async def alter_offsets(self, group_id: str, offsets: OffsetsLike) -> Results[TopicPartition, None]:
        """Set a group's committed offsets; refused (UNKNOWN_MEMBER_ID) while the group has members.

        (await admin.groups.alter_offsets("billing", {("orders", 0): 0})).all()
        """
        wanted = as_offsets(offsets)
        return await self._requests.many(commit_offsets(group_id, wanted), wanted)

    async def delete_offsets(self, group_id: str, partitions: Iterable[PartitionLike]) -> Results[TopicPartition, None]:
        """Delete a group's committed offsets; refused (GROUP_SUBSCRIBED_TO_TOPIC) while members read the topic.

        (await admin.groups.delete_offsets("billing", [("orders", 0)])).all()
        """
        return await self._requests.many(delete_offsets(group_id), map(as_partition, partitions))


def _list(states: list[str], types: list[str]) -> Ask[int, list[GroupListing]]:
    return Ask(
        ApiKey.LIST_GROUPS,
        target=this_broker,
        build=lambda brokers, version: ListGroupsRequest(states, types),
        read=lambda response, brokers, version: [
            (
                brokers[0],
                outcome(
                    [
                        GroupListing(
                            group.group_id, group.protocol_type, group.group_state or None, group.group_type or None
                        )
                        for group in response.groups
                    ],
                    response.error_code,
                ),
            )
        ],
        name=named_broker,
        is_single=True,
        version_min=_TYPES_SINCE if types else _STATES_SINCE if states else None,
    )


_DELETE: Ask[str, None] = Ask(
    ApiKey.DELETE_GROUPS,
    target=coordinator_of_group,
    build=lambda group_ids, version: DeleteGroupsRequest(list(group_ids)),
    read=lambda response, group_ids, version: [
        (result.group_id, outcome(None, result.error_code)) for result in response.results
    ],
    name=named_group,
)
