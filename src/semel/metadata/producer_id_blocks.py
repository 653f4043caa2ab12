"""Blocks of producer ids, claimed in the metadata store.

One value says which id is the first that is not claimed yet. A claim moves it by a block, by compare-and-set: of two
brokers that read the same value one gets the block, and the other reads again and gets the next.
"""

from __future__ import annotations

from typing import Final

from semel.errors import DecodeError, SemelError
from semel.metadata.paths import PRODUCER_IDS, decode_json, encode_json
from semel.metadata.store import MetadataStore, VersionConflict
from semel.types import INT64_MAX

BLOCK_SIZE: Final = 1000


async def claim_producer_ids(store: MetadataStore, *, node_id: int) -> range:
    """A block of ids that no other claim returns, before or after, on this broker or another.

    If the store fails in the middle, the block may be claimed although no broker got it. Then it is never given out.
    """
    while True:
        known = await store.get(PRODUCER_IDS)
        first = 0 if known is None else _next_producer_id(known.value)
        if first > INT64_MAX - BLOCK_SIZE:
            raise SemelError(f"all producer ids are used up: the next block would begin at {first}")
        value = encode_json({"claimed_by": node_id, "next_producer_id": first + BLOCK_SIZE})
        try:
            await store.compare_and_set(PRODUCER_IDS, value, None if known is None else known.version)
        except VersionConflict:
            continue  # Another broker got this block. Every such round hands one out, so it ends.
        return range(first, first + BLOCK_SIZE)


def _next_producer_id(value: bytes) -> int:
    first = decode_json(PRODUCER_IDS, value).get("next_producer_id")
    if not isinstance(first, int):
        # To begin at 0 again would hand ids out twice.
        raise DecodeError(f"{PRODUCER_IDS} holds {value[:200]!r}, which does not say the next producer id")
    return first
