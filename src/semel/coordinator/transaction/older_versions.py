"""Older requests get older errors: a client that is older than an error does not know what to do about it.

PRODUCER_FENCED (KIP-588) says that another instance has taken over; before it, INVALID_PRODUCER_EPOCH said that too.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from semel.errors import ErrorCode
from semel.wire.apis import ApiKey

FENCED_SINCE: Final[Mapping[ApiKey, int]] = MappingProxyType(
    {
        ApiKey.INIT_PRODUCER_ID: 4,
        ApiKey.ADD_PARTITIONS_TO_TXN: 2,
        ApiKey.ADD_OFFSETS_TO_TXN: 2,
        ApiKey.END_TXN: 2,
    }
)
"""The first version of each request that is answered PRODUCER_FENCED."""


def error_for_version(error: ErrorCode, api: ApiKey, version: int) -> ErrorCode:
    """``error``, or what came before it, if the request is too old for it."""
    if error is ErrorCode.PRODUCER_FENCED and version < FENCED_SINCE[api]:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error
