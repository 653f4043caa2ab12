"""The transaction gate of a partition: the producers that the coordinator has admitted to it, until their next marker.

The law: the first batch of a transaction is appended only after the coordinator has said that the partition is part of
the transaction, so that a delayed batch cannot open a transaction that is never ended (KIP-890). An admission holds for
one transactional id, producer id and epoch, and only until a marker of that producer is appended. A marker also cancels
an admission whose answer is under way. After a restart no producer is admitted, and the coordinator is asked again.
"""

from __future__ import annotations

from semel.types import ProducerIdentity


class TransactionGate:
    """The gate of one partition."""

    __slots__ = ("_admitted", "_asking")

    def __init__(self) -> None:
        self._admitted: dict[int, tuple[str, int]] = {}
        self._asking: dict[int, Asking] = {}

    def is_open(self, transactional_id: str, producer: ProducerIdentity) -> bool:
        return self._admitted.get(producer.producer_id) == (transactional_id, producer.producer_epoch)

    def knows(self, producer_id: int) -> bool:
        """Whether the coordinator has admitted this producer, or is being asked to."""
        return producer_id in self._admitted or producer_id in self._asking

    def ask(self, producer_id: int) -> Asking:
        """Record that the coordinator is being asked to admit the producer. A call of ``answered`` must follow."""
        asking = self._asking.get(producer_id)
        if asking is None:
            asking = self._asking[producer_id] = Asking()
        asking.count += 1
        return asking

    def answered(self, asking: Asking, transactional_id: str, producer: ProducerIdentity, *, admitted: bool) -> bool:
        """Record the coordinator's answer. Returns whether the producer is admitted.

        It is not admitted if the coordinator refused it, or if one of its markers was appended since the question.
        """
        asking.count -= 1
        if asking.count == 0 and self._asking.get(producer.producer_id) is asking:
            del self._asking[producer.producer_id]
        if asking.is_over:
            return False
        if admitted:
            self._admitted[producer.producer_id] = (transactional_id, producer.producer_epoch)
        return admitted

    def close(self, producer_id: int) -> None:
        """Remove the producer's admission, because one of its markers was appended."""
        self._admitted.pop(producer_id, None)
        asking = self._asking.pop(producer_id, None)
        if asking is not None:
            asking.is_over = True


class Asking:
    """The questions to the coordinator about one producer that are under way at the same time."""

    __slots__ = ("count", "is_over")

    def __init__(self) -> None:
        self.count = 0
        self.is_over = False
