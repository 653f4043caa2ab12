"""A ``ReplicaSet`` as a value, and back: without time, and without what the log says."""

from __future__ import annotations

from collections import deque
from types import ModuleType
from typing import Any

_FROM_THE_LOG = ("_log_end_offset", "_durable_offset")
_DERIVED = ("_counted", "_maximal_isr")
_OF_A_FOLLOWER = ("offset", "broker_epoch", "confirmed_ticket")


def frozen(replicas: Any) -> tuple[object, ...]:
    followers = tuple(
        (replica, *(getattr(follower, name) for name in _OF_A_FOLLOWER))
        for replica, follower in replicas._followers.items()
    )
    return (followers, tuple(replicas._tickets), *(getattr(replicas, name) for name in _plain(type(replicas))))


def thawed(
    module: ModuleType,
    value: tuple[Any, ...],
    *,
    log_end_offset: int,
    durable_offset: int,
    lagging: tuple[int, ...] = (),
) -> Any:
    """``lagging``: the followers that have been behind since moment 0; the others fell behind just now, or did not."""
    followers, tickets, *plain = value
    replicas = object.__new__(module.ReplicaSet)
    replicas._followers = {}
    for replica, *known in followers:
        follower = replicas._followers[replica] = module._Follower()
        for name, each in zip(_OF_A_FOLLOWER, known, strict=True):
            setattr(follower, name, each)
        if replica in lagging and follower.offset < log_end_offset:
            follower.behind_since_ms = 0
    replicas._tickets = deque(tickets)
    for name, each in zip(_plain(module.ReplicaSet), plain, strict=True):
        setattr(replicas, name, each)
    replicas._log_end_offset, replicas._durable_offset = log_end_offset, durable_offset
    replicas._count_members()
    return replicas


def _plain(kind: type) -> tuple[str, ...]:
    known = ("_followers", "_tickets", *_FROM_THE_LOG, *_DERIVED)
    return tuple(name for name in kind.__slots__ if name not in known)  # type: ignore[attr-defined]
