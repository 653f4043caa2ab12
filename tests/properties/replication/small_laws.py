"""The laws of a small cluster, and what clients of it were told.

- Every broker that may lead has everything that was acknowledged or read, on its disk.
- Logs agree below the high watermark, and what lies below it has ``min.insync.replicas`` copies.
- One leader for each epoch: no other can acknowledge in it.
- A leader that tells ends does not tell less than any leader before it.
- Once nothing moves any more, the replicas are equal and in sync.
- A leader that was replaced, and whose successor has acknowledged something, is not confirmed any more.
"""

from __future__ import annotations

from itertools import combinations

from tests.properties.replication.numbered import Numbered, remember, remembered
from tests.properties.replication.small_brokers import SmallBrokers
from tests.properties.replication.small_values import Broken, Committed, Log, Observed


class Laws:
    def __init__(self, brokers: SmallBrokers) -> None:
        self._brokers = brokers
        self._nodes = brokers.nodes
        self.observed: Numbered[Observed] = Numbered()
        remember(self)

    def check(self, numbers: tuple[int, ...], store_number: int, observed_number: int) -> None:
        """``numbers``: of the three brokers, in order."""
        partition = self._brokers.stores.values[store_number].partition
        for node_id, number in enumerate(numbers, 1):
            if node_id in partition.isr or node_id == partition.leader:
                self._check_may_lead(node_id, number, observed_number)
            self._check_tells(node_id, number, observed_number)
        for one, other in combinations(numbers, 2):
            self._check_agree(one, other)

    def check_quiet(self, numbers: tuple[int, ...], store_number: int) -> None:
        """Once nothing moves any more, all members have what the leader has, and are in sync."""
        partition = self._brokers.stores.values[store_number].partition
        nodes = {node_id: self._nodes.values[number] for node_id, number in enumerate(numbers, 1)}
        leader = None if partition.leader is None else nodes[partition.leader]
        if leader is None or leader.term is None:
            return  # All epochs are used up, or the last replica may have lost records.
        for node_id, node in nodes.items():
            if node.broker_epoch is None:
                continue  # It would have to lead, and all epochs are used up.
            if node_id not in partition.isr:
                raise Broken(f"broker {node_id} does not get in sync: {node.log}, {leader.log}")
            if node.log.records != leader.log.records:
                raise Broken(f"broker {node_id} does not get equal: {node.log}, {leader.log}")
            if self._brokers.replicas_of(leader).has_enough and node.log.high_watermark != len(node.log.records):
                raise Broken(f"broker {node_id} does not see everything committed: {node.log}")

    def check_copies(self, numbers: tuple[int, ...], before_number: int, after_number: int) -> None:
        """What is told for the first time has ``min.insync.replicas`` copies, with those that were lost since."""
        before, after = self.observed.values[before_number], self.observed.values[after_number]
        for each in after.committed - before.committed:
            copies = sum(
                node_id in after.disks_lost or _has(self._nodes.values[number].log, each)
                for node_id, number in enumerate(numbers, 1)
            )
            if copies < self._brokers.scope.min_insync_replicas:
                raise Broken(f"{each} has {copies} copies")

    @remembered
    def is_replaced(self, number: int, observed_number: int) -> bool:
        """Whether a newer leader has acknowledged something: then this one must tell nothing any more."""
        term = self._nodes.values[number].term
        committed = self.observed.values[observed_number].committed
        return term is not None and any(each.record.epoch > term.epoch for each in committed)

    @remembered
    def told(self, node_id: int, number: int, observed_number: int) -> int:
        """What is observed after something has happened to a broker: a leader tells its high watermark."""
        node, observed = self._nodes.values[number], self.observed.values[observed_number]
        if node.term is None:
            return observed_number
        epoch, high_watermark = node.term.epoch, node.log.high_watermark
        if not high_watermark:
            return observed_number
        told = [*observed.told, *[(0, 0)] * (epoch + 1 - len(observed.told))]
        leader, highest = told[epoch]
        if highest and leader != node_id:
            raise Broken(f"brokers {leader} and {node_id} both acknowledge in epoch {epoch}")
        told[epoch] = (node_id, max(highest, high_watermark))
        below = frozenset(Committed(offset, node.log.records[offset]) for offset in range(high_watermark))
        return self.observed.number(observed._replace(committed=observed.committed | below, told=tuple(told)))

    @remembered
    def _check_may_lead(self, node_id: int, number: int, observed_number: int) -> None:
        """Every broker that may be elected has everything that was acknowledged or read."""
        node = self._nodes.values[number]
        if node.has_lost_disk:
            return  # It takes itself out in the commit that registers it, and cannot be elected before.
        for each in self.observed.values[observed_number].committed:
            if not _has(node.log, each):
                raise Broken(f"broker {node_id} may lead and does not have {each}: {node.log}")

    @remembered
    def _check_tells(self, node_id: int, number: int, observed_number: int) -> None:
        node, observed = self._nodes.values[number], self.observed.values[observed_number]
        if node.term is None:
            return
        replicas = self._brokers.replicas_of(node)
        before = max((highest for _, highest in observed.told[: node.term.epoch]), default=0)
        if replicas.is_settled and replicas.high_watermark < before:
            raise Broken(f"broker {node_id} tells the end {replicas.high_watermark}; {before} was told before")
        if replicas.confirmed_ticket:
            raise Broken(f"broker {node_id} is confirmed in epoch {node.term.epoch} and was replaced before it asked")

    @remembered
    def _check_agree(self, one_number: int, other_number: int) -> None:
        one, other = self._nodes.values[one_number], self._nodes.values[other_number]
        end = min(one.log.high_watermark, other.log.high_watermark)
        if one.log.records[:end] != other.log.records[:end]:
            raise Broken(f"two logs differ below the high watermark: {one.log} and {other.log}")
        if one.term is not None and other.term is not None and one.term.epoch == other.term.epoch:
            raise Broken(f"two brokers lead in epoch {one.term.epoch}")


def _has(log: Log, committed: Committed) -> bool:
    offset = committed.offset
    return offset < log.durable and log.records[offset] == committed.record
