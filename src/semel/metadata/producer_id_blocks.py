"""Blocks of producer ids, claimed in the metadata store.

One value, ``/latest_producer_id_block``, is the block that was claimed last, with the broker that claimed it. A claim
writes the block after it, by compare-and-set: of two brokers that read the same value one gets the block, and the other
reads again and gets the next one.
"""

from __future__ import annotations

from typing import Any, Final

from semel.errors import DecodeError, SemelError
from semel.metadata.paths import LATEST_PRODUCER_ID_BLOCK, decode_json, encode_json
from semel.metadata.store import Delete, MetadataStore, Operation, Put, VersionConflict
from semel.types import INT64_MAX

BLOCK_SIZE: Final = 1000
# The path where earlier versions of Semel kept the first id that was not claimed.
FORMER_PATH: Final = "/producer_ids"


async def claim_producer_ids(store: MetadataStore, *, node_id: int) -> range:
    """Claim a block of ids that no other claim returns, before or after, on this broker or another.

    If the store fails meanwhile, the block may be claimed although no broker received it. Then it is never used.
    """
    while True:
        known = await store.get(LATEST_PRODUCER_ID_BLOCK)
        former = await store.get(FORMER_PATH) if known is None else None
        if known is not None:
            first = _number(LATEST_PRODUCER_ID_BLOCK, known.value, "block_end") + 1
        elif former is not None:
            first = _number(FORMER_PATH, former.value, "next_producer_id")
        else:
            first = 0
        if first > INT64_MAX - BLOCK_SIZE:
            raise SemelError(f"all producer ids are used up: the next block would begin at {first}")
        last = first + BLOCK_SIZE - 1
        block = {"version": 1, "broker": node_id, "block_start": str(first), "block_end": str(last)}  # As Kafka did.
        expected_version = None if known is None else known.version
        operations: list[Operation] = [Put(LATEST_PRODUCER_ID_BLOCK, encode_json(block), expected_version)]
        if former is not None:
            operations.append(Delete(FORMER_PATH, former.version))
        try:
            await store.commit(operations)
        except VersionConflict:
            continue  # Another broker got this block. In every such round a broker gets a block, so this ends.
        return range(first, first + BLOCK_SIZE)


def _number(path: str, value: bytes, name: str) -> int:
    number: Any = decode_json(path, value).get(name)
    if isinstance(number, str) and number.isascii() and number.isdigit():
        number = int(number)
    if not isinstance(number, int):
        # Beginning at 0 again would give ids out twice.
        raise DecodeError(f"{path} holds {value[:200]!r}, which does not say {name}")
    return number
