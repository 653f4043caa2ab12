"""Heartbeats of the classic protocol: one every heartbeat.interval.ms, whatever the application does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from semel.client.machine.connection.calls import Call
from semel.client.machine.connection.retry import Retry
from semel.client.machine.group.member_context import MemberContext
from semel.client.values import GroupMetadata
from semel.clock import NEVER
from semel.errors import ErrorCode
from semel.wire.apis import ApiKey
from semel.wire.messages.heartbeat import HeartbeatRequest

_INSTANCE_IDS_SINCE: Final = 3


class Heartbeats:
    """Sends the heartbeats of a member.

    ``refused`` is called with an error code and the identity that the heartbeat was sent with, which may have changed
    since.
    """

    def __init__(self, context: MemberContext, *, refused: Callable[[GroupMetadata, int, float], None]) -> None:
        config = context.config
        self._interval_ms = config.heartbeat_interval_ms
        self._version_min = None if config.group_instance_id is None else _INSTANCE_IDS_SINCE
        self._coordinator = context.coordinator
        self._retry = Retry.of(config.client, context.random)
        self._refused = refused
        self._asking = False
        self._due_ms = NEVER

    def begin(self, now_ms: float) -> None:
        """Start an interval: the coordinator has just received another request of this member."""
        self._due_ms = now_ms + self._interval_ms

    def poll(self, member: GroupMetadata, now_ms: float) -> None:
        if self._asking or now_ms < self._due_ms:
            return

        def build(version: int) -> HeartbeatRequest:
            assert member.generation_id is not None, "a member without a generation sends no heartbeats"
            return HeartbeatRequest(member.group_id, member.generation_id, member.member_id, member.group_instance_id)

        def answered(response: Any, version: int, at_ms: float) -> None:
            self._asking = False
            self._retry = self._retry.succeeded()
            if response.error_code != ErrorCode.NONE:
                self._refused(member, response.error_code, at_ms)

        def lost(reason: str, at_ms: float) -> None:
            self._asking = False
            self._coordinator.forget()
            self._retry = self._retry.failed(at_ms)
            self._due_ms = self._retry.due_ms

        call = Call(ApiKey.HEARTBEAT, build, answered, lost, version_min=self._version_min)
        if self._coordinator.ask(call, now_ms):
            self._asking = True
            self._due_ms = now_ms + self._interval_ms

    def next_deadline_ms(self, now_ms: float) -> float:
        return self._due_ms if not self._asking and self._due_ms > now_ms else NEVER
