"""A producer id for a decision that may turn out to need one."""

from __future__ import annotations

from semel.coordinator.producer_ids import ProducerIds
from semel.coordinator.transaction.shard import TransactionShard


class NewProducerId:
    """A producer id that is taken when the shard first needs it, and kept in case the request is decided again."""

    __slots__ = ("_producer_id", "_supply")

    def __init__(self, supply: ProducerIds, producer_id: int | None = None) -> None:
        self._supply = supply
        self._producer_id = producer_id

    def if_needed(self, shard: TransactionShard, transactional_id: str, *, for_init: bool) -> int | None:
        """Return a producer id; None if the shard needs none, or if none is available and the shard must refuse."""
        if not shard.needs_producer_id(transactional_id, for_init=for_init):
            return None
        if self._producer_id is None:
            self._producer_id = self._supply.next()
        return self._producer_id
