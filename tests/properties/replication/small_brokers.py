"""What a broker of a small cluster does: it crashes, joins, sees an image, leads and follows.

All arguments and answers are numbers of values. The decisions are those of the real modules, or of copies with a bug.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from semel.errors import KafkaError
from semel.metadata import election
from semel.metadata.image import Broker, ClusterImage, PartitionState, Topic
from semel.replication import follower, replica_set
from semel.types import ZERO_UUID
from semel.wire.records import read_header
from tests.properties.replication.numbered import Numbered, remember, remembered
from tests.properties.replication.replica_set_values import frozen, thawed
from tests.properties.replication.small_values import (
    REPLICAS,
    Answer,
    Broken,
    Fetch,
    Log,
    LogView,
    Mistake,
    Node,
    Proposal,
    Scope,
    Store,
    Term,
    Written,
    batch,
    read,
)

TOPIC = "orders"
NOTHING_SEEN = Store(PartitionState(None, 0, REPLICAS, ()), (None, None, None))
"""By a broker that is no member, and has to join first."""


@dataclass(frozen=True)
class Core:
    """What decides: the real modules, or copies with a bug; and what is wrong around them."""

    replica_set: ModuleType = replica_set
    follower: ModuleType = follower
    election: ModuleType = election
    mistake: Mistake | None = None


class SmallBrokers:
    def __init__(self, scope: Scope, core: Core) -> None:
        self.scope = scope
        self.core = core
        self.nodes: Numbered[Node] = Numbered()
        self.stores: Numbered[Store] = Numbered()
        remember(self)

    def started(self, node_id: int, store_number: int) -> int:
        view = self.relevant(node_id, store_number)
        return self.nodes.number(self._roles(node_id, Node(Log(), view, 1), settled=True))

    # Members come and go

    @remembered
    def crashed(self, number: int, loses_disk: bool) -> int:
        node = self.nodes.values[number]
        log = Log() if loses_disk else node.log.after_crash()
        crashed = node._replace(log=log, view=NOTHING_SEEN, broker_epoch=None, term=None, mark=0, is_alive=False)
        return self.nodes.number(crashed._replace(has_lost_disk=node.has_lost_disk or loses_disk))

    @remembered
    def joined(self, node_id: int, number: int, store_number: int) -> tuple[int, int] | None:
        """The commits of ``Membership``: what it may not keep, the raised epoch, the registration."""
        node, store = self.nodes.values[number], self.stores.values[store_number]
        partition = store.partition
        if node.has_lost_disk and self.core.mistake is not Mistake.LOST_DISK_STAYS_IN_SYNC:
            left = self.core.election.leave_isr(_image(store), node_id, lambda _topic, _partition: False)
            partition = left[0].topic.partitions[0] if left else partition
        if partition.leader == node_id and self.core.mistake is not Mistake.REGISTRATION_KEEPS_THE_LEADER_EPOCH:
            partition = replace(partition, leader_epoch=partition.leader_epoch + 1)
        if partition.leader_epoch >= self.scope.budget.epochs:
            return None
        epoch = node.registrations + 1
        registered = tuple(epoch if place == node_id else known for place, known in enumerate(store.registered, 1))
        after = self.stores.number(Store(partition, registered))
        member = node._replace(broker_epoch=epoch, registrations=epoch, is_alive=True, has_lost_disk=False)
        return self.nodes.number(self._viewing(node_id, member, after, settled=True)), after

    @remembered
    def is_behind(self, node_id: int, number: int, store_number: int) -> bool:
        """Whether a newer image would change anything for a member."""
        node = self.nodes.values[number]
        return node.broker_epoch is not None and node.view != self.relevant(node_id, store_number)

    @remembered
    def shown(self, node_id: int, number: int, store_number: int, settled: bool) -> int:
        return self.nodes.number(self._viewing(node_id, self.nodes.values[number], store_number, settled=settled))

    def _viewing(self, node_id: int, node: Node, store_number: int, *, settled: bool) -> Node:
        view = self.relevant(node_id, store_number)
        if view.partition.leader_epoch != node.view.partition.leader_epoch:
            node = node._replace(mark=0)
        return self._roles(node_id, node._replace(view=view), settled=settled)

    @remembered
    def relevant(self, node_id: int, store_number: int) -> Store:
        """What a broker does something about: a follower does not look at the in-sync set, nor at other followers."""
        store = self.stores.values[store_number]
        partition = store.partition
        if partition.leader == node_id:
            return store
        registered = tuple(
            epoch if each in (node_id, partition.leader) else None for each, epoch in enumerate(store.registered, 1)
        )
        return Store(replace(partition, isr=(), partition_epoch=0), registered)

    def _roles(self, node_id: int, node: Node, *, settled: bool) -> Node:
        """What a broker is after it has seen an image."""
        partition = node.view.partition
        if node.broker_epoch is None or node.view.registered[node_id - 1] != node.broker_epoch:
            return node._replace(view=NOTHING_SEEN, broker_epoch=None, term=None, mark=0)
        if partition.leader != node_id:
            if self.core.mistake is not Mistake.FOLLOWS_BEFORE_THE_SYNC:
                node = node._replace(log=node.log.synced())
            node = node._replace(term=None)
            if self.core.mistake is Mistake.EPOCH_ENTERED_AT_THE_IMAGE:
                node = node._replace(log=node.log.with_epoch(partition.leader_epoch))
            return node
        if node.term is not None and node.term.epoch == partition.leader_epoch:
            replicas = self.replicas_of(node)
            replicas.isr_changed(partition.isr)
            if settled:
                replicas.proposal_settled()
            return _leading(node, replicas)
        node = node._replace(log=node.log.with_epoch(partition.leader_epoch))
        log = node.log
        if self.core.mistake is Mistake.TERM_BEGINS_AT_THE_LOG_END:
            log = log._replace(high_watermark=len(log.records))
        replicas = self.core.replica_set.ReplicaSet(
            node_id=node_id,
            replicas=REPLICAS,
            isr=partition.isr,
            epoch_start_offset=len(log.records),
            log_end_offset=len(log.records),
            durable_offset=log.durable,
            high_watermark=log.high_watermark,
            min_insync_replicas=self.scope.min_insync_replicas,
        )
        replicas.leader_synced(log.durable)
        return _leading(node._replace(term=Term(partition.leader_epoch, ())), replicas)

    # A leader

    @remembered
    def synced(self, number: int) -> int:
        node = self.nodes.values[number]
        node = node._replace(log=node.log.synced())
        if node.term is None:
            return self.nodes.number(node)
        replicas = self.replicas_of(node)
        replicas.leader_synced(node.log.durable)
        return self.nodes.number(_leading(node, replicas))

    @remembered
    def appended(self, node_id: int, number: int, record_number: int) -> int | None:
        node = self.nodes.values[number]
        assert node.term is not None
        replicas = self.replicas_of(node)
        if not replicas.has_enough:
            return None
        node = node._replace(log=node.log.appended(Written(node.term.epoch, record_number)))
        replicas.appended(len(node.log.records))
        return self.nodes.number(_leading(node, replicas))

    @remembered
    def asked(self, number: int) -> int:
        node = self.nodes.values[number]
        replicas = self.replicas_of(node)
        replicas.ask_confirmation()
        return self.nodes.number(_leading(node, replicas))

    @remembered
    def proposed(self, node_id: int, number: int, shrinks: bool) -> tuple[tuple[int, Proposal], ...]:
        """What a leader may propose, as some followers lag or, without ``shrinks``, as none does."""
        found: dict[tuple[int, Proposal], None] = {}
        for lagging in ((1,), (2,), (3,), (1, 2), (1, 3), (2, 3)) if shrinks else ((),):
            proposal = self._proposed(node_id, number, lagging)
            if proposal is not None:
                found[proposal] = None
        return tuple(found)

    def _proposed(self, node_id: int, number: int, lagging: tuple[int, ...]) -> tuple[int, Proposal] | None:
        node = self.nodes.values[number]
        assert node.term is not None
        replicas = self.replicas_of(node, lagging=lagging)
        registered = {place: epoch for place, epoch in enumerate(node.view.registered, 1) if epoch is not None}
        isr = replicas.proposal(1, lag_max_ms=0, broker_epochs=registered)
        if isr is None or not set(lagging) <= replicas.isr - isr:
            return None
        replicas.proposed(isr)
        joining = tuple((each, registered.get(each)) for each in sorted(isr - replicas.isr))
        proposal = Proposal(node_id, node.term.epoch, node.view.partition, isr, joining)
        return self.nodes.number(_leading(node, replicas)), proposal

    def replicas_of(self, node: Node, *, lagging: tuple[int, ...] = ()) -> Any:
        assert node.term is not None
        return thawed(
            self.core.replica_set,
            node.term.replicas,
            log_end_offset=len(node.log.records),
            durable_offset=node.log.durable,
            lagging=lagging,
        )

    # A follower and its leader

    @remembered
    def exchanged(self, node_id: int, number: int, leader: int, leader_number: int) -> tuple[str, int, int] | None:
        """Its Fetch arrives, and the answer too; the next Fetch is on its way. ``None``: nothing would change."""
        node, answering = self.nodes.values[number], self.nodes.values[leader_number]
        fetch = self.fetch_of(node_id, number, leader)
        if answering.term is None or answering.term.epoch != fetch.epoch:
            return None
        counted = self.fetched(leader_number, fetch)
        if counted is None:
            return None
        mark = self.replicas_of(self.nodes.values[counted]).last_ticket
        log, what = self._obeyed(node.log, self._answer(fetch, self.nodes.values[counted].log))
        after = self.nodes.number(node._replace(log=log, mark=mark))
        return None if (after, counted) == (number, leader_number) else (what, after, counted)

    @remembered
    def answered(self, node_id: int, number: int, leader: int, leader_number: int) -> tuple[int, Answer] | None:
        """Its Fetch arrives, and the answer does not yet."""
        fetch = self.fetch_of(node_id, number, leader)
        counted = self.fetched(leader_number, fetch)
        return None if counted is None else (counted, self._answer(fetch, self.nodes.values[counted].log))

    @remembered
    def answered_late(self, number: int, answer: Answer) -> int | None:
        """``None``: it is not heard, or changes nothing. It belongs to a term, and to what was asked in it."""
        node = self.nodes.values[number]
        if followed(answer.follower, node) != answer.leader:
            return None
        if self.core.mistake is Mistake.LATE_ANSWER_COUNTS_FOR_THE_PRESENT:
            fetch = self.fetch_of(answer.follower, number, answer.leader)
            answer = answer._replace(offset=fetch.offset, last_fetched_epoch=fetch.last_fetched_epoch)
        elif node.view.partition.leader_epoch != answer.epoch:
            return None
        after = self.nodes.number(node._replace(log=self._obeyed(node.log, answer)[0]))
        return None if after == number else after

    def _answer(self, fetch: Fetch, log: Log) -> Answer:
        """With one record at most. No leader truncates, so a log that diverges does so before and after the Fetch."""
        follower, leader, epoch, offset, last_fetched_epoch, *_ = fetch
        asked = self.core.follower.FetchPosition(offset, last_fetched_epoch, 0)
        diverging = self._diverging(log, asked)
        more = [] if diverging is not None else [batch(at, log.records[at]) for at in range(offset, len(log.records))]
        sent = more[0] if more else b""
        return Answer(follower, leader, epoch, offset, last_fetched_epoch, diverging, log.high_watermark, sent)

    def _obeyed(self, log: Log, answer: Answer) -> tuple[Log, str]:
        """A follower's log after an answer, and what it did."""
        action = self.core.follower.decide(
            LogView(log),
            self.core.follower.PartitionAnswer(
                diverging_epoch=answer.diverging_epoch,
                high_watermark=answer.high_watermark,
                records=answer.records,
            ),
            asked=self.core.follower.FetchPosition(answer.offset, answer.last_fetched_epoch, 0),
        )
        if isinstance(action, self.core.follower.TruncateTo):
            if action.loses_committed:
                raise Broken(f"a follower truncates to {action.offset}, below its high watermark: {log}")
            return log.truncated(action.offset), "truncates"
        if isinstance(action, self.core.follower.Append):
            latest = LogView(log).latest_epoch
            try:
                self.core.follower.check_copied(action.records, next_offset=len(log.records), last_epoch=latest)
            except KafkaError:
                return log, "refuses what comes"
            if action.records and read_header(action.records).base_offset > len(log.records):
                raise Broken(f"a follower leaves a gap: {answer} after {log}")
            log = log.appended(*read(action.records))
            if self.core.mistake is not Mistake.FETCH_BEFORE_THE_SYNC:
                log = log.synced()
            high_watermark = max(log.high_watermark, min(action.high_watermark, len(log.records)))
            return log._replace(high_watermark=high_watermark), "copies"
        return log, "waits"

    @remembered
    def fetch_of(self, node_id: int, number: int, leader: int) -> Fetch:
        """What a follower has on its way."""
        node = self.nodes.values[number]
        assert node.broker_epoch is not None
        asked = self.core.follower.position(LogView(node.log))
        epoch = node.view.partition.leader_epoch
        return Fetch(node_id, leader, epoch, asked.offset, asked.last_fetched_epoch, node.broker_epoch, node.mark)

    @remembered
    def may_be_heard(self, number: int, epoch: int) -> bool:
        """Whether a late answer of this epoch may still count."""
        node = self.nodes.values[number]
        late = self.core.mistake is Mistake.LATE_ANSWER_COUNTS_FOR_THE_PRESENT
        return node.broker_epoch is not None and (late or node.view.partition.leader_epoch <= epoch)

    @remembered
    def may_arrive(self, leader_number: int, epoch: int) -> bool:
        leader = self.nodes.values[leader_number]
        if leader.term is not None:
            return leader.term.epoch <= epoch
        return leader.broker_epoch is not None and leader.view.partition.leader_epoch < epoch

    @remembered
    def fetched(self, leader_number: int, fetch: Fetch) -> int | None:
        """The leader after it has counted a Fetch; ``None``: it refuses it."""
        leader = self.nodes.values[leader_number]
        if leader.term is None or leader.term.epoch != fetch.epoch:
            return None
        replicas = self.replicas_of(leader)
        asked = self.core.follower.FetchPosition(fetch.offset, fetch.last_fetched_epoch, 0)
        try:
            is_same = self._diverging(leader.log, asked) is None
        except KafkaError:
            return None
        mistaken = self.core.mistake is Mistake.DIVERGING_FETCH_IS_PROGRESS and fetch.offset <= len(leader.log.records)
        if is_same or mistaken:
            replicas.fetched(fetch.follower, fetch.offset, broker_epoch=fetch.broker_epoch, now_ms=0)
        mark = fetch.mark
        if self.core.mistake is Mistake.FETCH_CONFIRMS_WHAT_IT_DID_NOT_ANSWER:
            mark = replicas.last_ticket
        replicas.replied(fetch.follower, mark)
        return self.nodes.number(_leading(leader, replicas))

    def _diverging(self, log: Log, asked: Any) -> tuple[int, int] | None:
        diverging: tuple[int, int] | None = self.core.follower.diverging_epoch(LogView(log), asked)
        return diverging

    # The controller

    @remembered
    def elected(self, store_number: int) -> int | None:
        return self._altered(store_number, lambda image: self.core.election.elect(image))

    @remembered
    def moved(self, store_number: int, name: str) -> int | None:
        if name == "prefer":
            return self._altered(store_number, lambda image: self.core.election.prefer(image))
        leader = self.stores.values[store_number].partition.leader
        if leader is None:
            return None
        return self._altered(store_number, lambda image: self.core.election.resign(image, leader))

    def _altered(self, store_number: int, decide: Callable[[ClusterImage], Any]) -> int | None:
        store = self.stores.values[store_number]
        changes = decide(_image(store))
        if not changes or changes[0].topic.partitions[0].leader_epoch >= self.scope.budget.epochs:
            return None
        return self.stores.number(store._replace(partition=changes[0].topic.partitions[0]))


def followed(node_id: int, node: Node) -> int | None:
    """The leader that a broker copies from."""
    leader = node.view.partition.leader
    if node.broker_epoch is None or leader is None or leader == node_id or node.view.registered[leader - 1] is None:
        return None
    return leader


def _leading(node: Node, replicas: Any) -> Node:
    assert node.term is not None
    return node._replace(
        term=node.term._replace(replicas=frozen(replicas)),
        log=node.log._replace(high_watermark=replicas.high_watermark),
    )


def _image(store: Store) -> ClusterImage:
    brokers = {
        node_id: Broker(node_id, "h", 1, epoch=epoch)
        for node_id, epoch in enumerate(store.registered, 1)
        if epoch is not None
    }
    topic = Topic(TOPIC, ZERO_UUID, (store.partition,))
    return ClusterImage("cluster", brokers=brokers, topics={TOPIC: topic})
