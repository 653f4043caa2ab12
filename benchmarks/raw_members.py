"""Members of classic groups that speak the protocol themselves, thousands of them in one process.

Each has a connection of its own, as a client's member has, and does what a client does: joins, hands in the assignment
if it leads, joins again when it is told of a rebalance. What it reads is of no interest here.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

from benchmarks.raw_load import connected
from semel.errors import ErrorCode
from semel.wire.apis import APIS, ApiKey
from semel.wire.codec import decode
from semel.wire.framing import decode_response_header, encode_request
from semel.wire.messages.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from semel.wire.messages.heartbeat import HeartbeatRequest
from semel.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from semel.wire.messages.leave_group import LeaveGroupRequest
from semel.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tools.server import Server

SESSION_TIMEOUT_MS: Final = 45_000

# Before JoinGroup 4 a member is given its id with the answer to its first request.
_VERSIONS: Final = {ApiKey.JOIN_GROUP: 3, ApiKey.SYNC_GROUP: 2, ApiKey.HEARTBEAT: 2, ApiKey.LEAVE_GROUP: 2}
_SUBSCRIPTION: Final = encode_subscription(ConsumerProtocolSubscription(topics=["orders"]))
# As long as the assignment of a few partitions is.
_ASSIGNMENT: Final = bytes(40)
_TO_JOIN_AGAIN: Final = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION})
_STABLE_TIMEOUT_S: Final = 120.0


class RawMember:
    def __init__(self, server: Server, group_id: str) -> None:
        self.group_id = group_id
        self.member_id = ""
        self.generation = -1
        self.group_size = 0
        """How many members its generation has, as far as it was told: only a leader is."""
        self.is_assigned = False
        self.connection: socket.socket = connected(server)
        self.heartbeat_request = b""
        self._asked: list[ApiKey] = []
        self._received = bytearray()

    def join(self) -> None:
        self.is_assigned = False
        protocol = JoinGroupRequestProtocol("range", _SUBSCRIPTION)
        self._ask(
            ApiKey.JOIN_GROUP,
            JoinGroupRequest(
                group_id=self.group_id,
                session_timeout_ms=SESSION_TIMEOUT_MS,
                rebalance_timeout_ms=SESSION_TIMEOUT_MS,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=[protocol],
            ),
        )

    def heartbeat(self) -> None:
        self._asked.append(ApiKey.HEARTBEAT)
        self.connection.sendall(self.heartbeat_request)

    def leave(self) -> None:
        """Say so, and hang up."""
        self._ask(ApiKey.LEAVE_GROUP, LeaveGroupRequest(group_id=self.group_id, member_id=self.member_id))
        self.connection.close()

    def receive(self) -> int:
        """What has arrived is acted on; how many answers that were."""
        part = self.connection.recv(256 * 1024)
        assert part, f"the broker closed the connection of {self.member_id or 'a new member'}"
        received = self._received
        received += part
        count = 0
        while len(received) >= 4 and len(received) >= 4 + (length := int.from_bytes(received[:4], "big")):
            self._answered(self._asked.pop(0), bytes(received[4 : 4 + length]))
            del received[: 4 + length]
            count += 1
        return count

    def _ask(self, key: ApiKey, message: object) -> None:
        self._asked.append(key)
        self.connection.sendall(_request(key, message))

    def _answered(self, key: ApiKey, frame: bytes) -> None:
        api, version = APIS[key], _VERSIONS[key]
        _, position = decode_response_header(frame, api, version)
        answer: Any = decode(api.response_class, frame, version, position)
        if answer.error_code in _TO_JOIN_AGAIN:
            self.join()
            return
        assert answer.error_code == ErrorCode.NONE, f"{key.name} was answered with error code {answer.error_code}"
        if key is ApiKey.JOIN_GROUP:
            self._joined(answer)
        elif key is ApiKey.SYNC_GROUP:
            self.is_assigned = True

    def _joined(self, answer: Any) -> None:
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self.group_size = len(answer.members)
        beat = HeartbeatRequest(self.group_id, self.generation, self.member_id)
        self.heartbeat_request = _request(ApiKey.HEARTBEAT, beat)
        assignments = [SyncGroupRequestAssignment(one.member_id, _ASSIGNMENT) for one in answer.members]
        self._ask(
            ApiKey.SYNC_GROUP,
            SyncGroupRequest(self.group_id, self.generation, self.member_id, assignments=assignments),
        )


class RawMembers:
    """Members of any number of groups, all of the same size."""

    def __init__(self, server: Server, group_ids: Iterable[str], group_size: int) -> None:
        self._group_size = group_size
        self._poll = select.epoll()
        self._by_number: dict[int, RawMember] = {}
        self.groups = [[self._member(server, group_id) for _ in range(group_size)] for group_id in group_ids]

    @property
    def members(self) -> Sequence[RawMember]:
        return list(self._by_number.values())

    def join(self) -> None:
        """Make all groups, and return when each is stable with all of its members."""
        for member in self.members:
            member.join()
        self._until_stable()

    def rejoin(self) -> float:
        """Everybody joins again; the seconds from the first JoinGroup to the last SyncGroup's answer."""
        started = time.perf_counter()
        for member in self.members:
            member.join()
        self._until_stable()
        return time.perf_counter() - started

    def heartbeat_for(self, seconds: float, interval_s: float) -> int:
        """Every member heartbeats once in an interval, spread evenly over it; how many were answered."""
        members, started = self.members, time.perf_counter()
        sent = answered = 0
        while (elapsed_s := time.perf_counter() - started) < seconds:
            due = int(elapsed_s / interval_s * len(members))
            for number in range(sent, due):
                members[number % len(members)].heartbeat()
            sent = max(sent, due)
            answered += self._receive(0.002)
        while answered < sent:
            answered += self._receive(10.0)
        assert self._are_stable(), "a group was rebalanced although all of its members were heard"
        return answered

    def leave(self) -> None:
        for member in self.members:
            member.leave()
        self._poll.close()

    def _member(self, server: Server, group_id: str) -> RawMember:
        member = RawMember(server, group_id)
        self._by_number[member.connection.fileno()] = member
        self._poll.register(member.connection.fileno(), select.EPOLLIN)
        return member

    def _receive(self, timeout_s: float) -> int:
        ready = self._poll.poll(timeout_s, 4096)
        return sum(self._by_number[number].receive() for number, _ in ready)

    def _until_stable(self) -> None:
        deadline = time.perf_counter() + _STABLE_TIMEOUT_S
        while not self._are_stable():
            assert time.perf_counter() < deadline, f"groups are not stable after {_STABLE_TIMEOUT_S:.0f} s"
            if not self._receive(0.5):
                # Whoever is assigned hears of a rebalance by its heartbeat only.
                for member in self.members:
                    if member.is_assigned:
                        member.heartbeat()

    def _are_stable(self) -> bool:
        return all(
            all(member.is_assigned for member in group)
            and len({member.generation for member in group}) == 1
            and max(member.group_size for member in group) == self._group_size
            for group in self.groups
        )


def _request(key: ApiKey, message: object) -> bytes:
    return bytes(encode_request(0, APIS[key], _VERSIONS[key], message, client_id="semel-bench"))
