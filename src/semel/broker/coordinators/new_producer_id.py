"""A producer id for a decision that may turn out to need one."""

from __future__ import annotations

from semel.coordinator.producer_ids import ProducerIds
from semel.coordinator.transaction.shard import TransactionShard


class NewProducerId:
    """Taken when the shard first says that it is needed, and kept for when the shard is asked again."""

    __slots__ = ("_producer_id", "_supply")

    def __init__(self, supply: ProducerIds, producer_id: int | None = None) -> None:
        self._supply = supply
        self._producer_id = producer_id

    def if_needed(self, shard: TransactionShard, transactional_id: str, *, for_init: bool) -> int | None:
        """None if it is not needed, or if there is none at hand: then the shard says so."""
        if not shard.needs_producer_id(transactional_id, for_init=for_init):
            return None
        if self._producer_id is None:
            self._producer_id = self._supply.next()
        return self._producer_id
