"""The quota ``controller_mutation_rate``: the rate of partitions that are created and deleted (KIP-599)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from semel.broker.network.request import Request
from semel.errors import ErrorCode
from semel.metadata.controller import NewPartitions, NewTopic, Refusal, TopicResult, TopicToDelete

Wanted = TypeVar("Wanted", NewTopic, NewPartitions, TopicToDelete)

OVER_QUOTA: Final = Refusal(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")


def within_quota(
    request: Request, wanted: Sequence[Wanted], partitions: Callable[[Wanted], int], *, strict_since: int
) -> tuple[Sequence[Wanted], list[TopicResult]]:
    """Return the changes that the client's quota allows, and the results of the refused ones.

    If the quota is used up, the client is muted. In versions with the error code THROTTLING_QUOTA_EXCEEDED the change
    is refused; in older versions it is allowed.
    """
    limits = request.limits
    if limits is None:
        return wanted, []
    allowed: list[Wanted] = []
    refused: list[TopicResult] = []
    is_strict = request.version >= strict_since
    for one in wanted:
        if is_strict and (throttle_ms := limits.mutations_throttle_ms()):
            request.throttle(throttle_ms)
            refused.append(TopicResult(one.name, refusal=OVER_QUOTA, id=one.id))
        else:
            limits.mutated(partitions(one))
            allowed.append(one)
    if not is_strict:
        request.throttle(limits.mutations_throttle_ms())
    return allowed, refused
