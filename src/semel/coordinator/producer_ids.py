"""Producer ids, which are never used twice in the cluster.

Ids are claimed in blocks, by compare-and-set in the metadata store (``metadata.producer_id_blocks``). The law: an id is
given out only after the claim of its block was committed, and a block is claimed once. If a broker dies, the ids that
it had claimed and not given out are never used. That does no harm: ids are 63 bits wide.

``ProducerIdBlocks`` is the state, without I/O; ``ProducerIds`` claims for it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

# The next block is claimed when fewer ids than this are left, so that a claim is rarely waited for.
PREFETCH_BELOW: Final = 100

ClaimBlock: TypeAlias = Callable[[], Awaitable[range]]


class ProducerIdBlocks:
    """The ids that were claimed and not yet given out, in order."""

    def __init__(self) -> None:
        self._blocks: deque[range] = deque()

    def next(self) -> int | None:
        """Return an id that was never given out, or ``None`` if a block must be claimed first."""
        if not self._blocks:
            return None
        block = self._blocks.popleft()
        if len(block) > 1:
            self._blocks.appendleft(block[1:])
        return block[0]

    def claimed(self, block: range) -> None:
        self._blocks.append(block)

    @property
    def remaining(self) -> int:
        return sum(map(len, self._blocks))


class ProducerIds:
    """The producer ids of one broker. ``claim_block`` returns ids that no other call of it returns, on any broker."""

    def __init__(self, claim_block: ClaimBlock) -> None:
        self._claim = claim_block
        self._blocks = ProducerIdBlocks()
        self._claiming: asyncio.Task[None] | None = None

    def next(self) -> int | None:
        """Return an id without waiting, or ``None``: then ``claim`` waits for one. Must be called on the event loop."""
        producer_id = self._blocks.next()
        if self._blocks.remaining < PREFETCH_BELOW:
            self._claim_block()
        return producer_id

    async def claim(self) -> int:
        """Return an id, after claiming a block if necessary. Raises what the store raised if the claim failed."""
        while (producer_id := self.next()) is None:
            # Shielded, because several requests wait for the same claim: cancelling one of them must not cancel it.
            await asyncio.shield(self._claim_block())
        return producer_id

    async def close(self) -> None:
        """Wait for a claim that is in progress."""
        if self._claiming is not None:
            await asyncio.gather(self._claiming, return_exceptions=True)

    def _claim_block(self) -> asyncio.Task[None]:
        if self._claiming is None:
            self._claiming = asyncio.ensure_future(self._add_block())
            self._claiming.add_done_callback(self._claim_ended)
        return self._claiming

    async def _add_block(self) -> None:
        self._blocks.claimed(await self._claim())

    def _claim_ended(self, task: asyncio.Task[None]) -> None:
        self._claiming = None
        if not task.cancelled():
            # Marks the exception as retrieved. Callers that wait receive it; after a failed prefetch the next claim
            # raises its own.
            task.exception()
