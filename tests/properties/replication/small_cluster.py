"""Every state that one partition with three replicas can get into, with a few records and a few faults.

Leaders count with the real ``ReplicaSet``, followers follow the real ``follower`` decisions over real batches and
``LeaderEpochs``, leaders are chosen by the real ``election``. Around them stands as little as there can be: logs that
lose in a crash what was not synced, a store with compare-and-set, and brokers that see its changes late or never. A
follower always has one Fetch on its way. It arrives, and its answer, with one record at most, arrives too or does not;
then the next one is on its way. What can go wrong is counted (``Budget``):

- a crash, in which the disk may be lost, and a session that expires although its broker lives and goes on;
- a Fetch that arrives once more, at any later time, and an answer that comes after the follower has asked again;
- a follower that the leader takes for lagging; a leader that is moved on purpose.

``moves`` says what happens next by itself, ``faults`` what may happen besides. ``check`` raises ``Broken`` when a law
does not hold, and ``check_quiet`` when nothing moves any more although the replicas are not equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from semel.metadata.image import PartitionState
from tests.properties.replication.numbered import Numbered, remember, remembered
from tests.properties.replication.small_brokers import Core, SmallBrokers, followed
from tests.properties.replication.small_laws import Laws
from tests.properties.replication.small_values import (
    REPLICAS,
    Answer,
    Budget,
    Fetch,
    Mistake,
    Node,
    Observed,
    Proposal,
    Scope,
    Store,
)

What: TypeAlias = tuple[object, ...]
"""In words, put together only if they are read."""
Moves: TypeAlias = "Iterator[tuple[What, World]]"


class World(NamedTuple):
    """Numbers of values: worlds have most of them in common, and numbers are compared at once."""

    first: int
    second: int
    third: int
    store: int
    proposals: int
    late: int
    observed: int
    budget: int

    def node(self, node_id: int) -> int:
        return self[node_id - 1]

    def with_node(self, node_id: int, number: int) -> World:
        return World._make((*self[: node_id - 1], number, *self[node_id:]))


class SmallCluster:
    def __init__(self, scope: Scope, core: Core | None = None) -> None:
        self.scope = scope
        self.core = core or Core()
        self._brokers = SmallBrokers(scope, self.core)
        self._laws = Laws(self._brokers)
        self._nodes = self._brokers.nodes
        self._stores = self._brokers.stores
        self._proposals: Numbered[tuple[Proposal, ...]] = Numbered()
        self._late: Numbered[tuple[Fetch | Answer, ...]] = Numbered()
        self._budgets: Numbered[Budget] = Numbered()
        remember(self)

    def start(self) -> World:
        store = self._stores.number(Store(PartitionState(self.scope.leader, 0, REPLICAS, self.scope.isr, 0), (1, 1, 1)))
        first, second, third = (self._brokers.started(node_id, store) for node_id in REPLICAS)
        return World(
            first,
            second,
            third,
            store,
            self._proposals.number(()),
            self._late.number(()),
            self._laws.observed.number(Observed()),
            self._budgets.number(self.scope.budget),
        )

    def check(self, world: World) -> None:
        """Raises ``Broken``."""
        self._laws.check(world[:3], world.store, world.observed)

    def check_quiet(self, world: World) -> None:
        """There are no more moves: nothing may be left to do."""
        self._laws.check_quiet(world[:3], world.store)

    # What happens by itself, sooner or later

    def moves(self, world: World) -> Moves:
        for node_id in REPLICAS:
            number = world.node(node_id)
            node = self._nodes.values[number]
            if node.broker_epoch is None:
                yield from self._join(world, node_id)
            else:
                if self._brokers.is_behind(node_id, number, world.store):
                    yield ("broker", node_id, "sees the image"), self._seen(world, node_id)
                yield from self._follow(world, node_id, node)
                yield from self._propose(world, node_id, node, shrinks=False)
            if node.is_alive and len(node.log.records) > node.log.durable:
                yield ("broker", node_id, "syncs"), self._led(world, node_id, self._brokers.synced(number))
        for place, message in enumerate(self._late.values[world.late]):
            yield from self._arrive_late(world, place, message)
        for proposal in self._proposals.values[world.proposals]:
            yield from self._decide(world, proposal)
        elected = self._brokers.elected(world.store)
        if elected is not None:
            yield ("election:", self._stores.values[elected].partition), world._replace(store=elected)

    def _follow(self, world: World, node_id: int, node: Node) -> Moves:
        leader = followed(node_id, node)
        if leader is None:
            return
        exchanged = self._brokers.exchanged(node_id, world.node(node_id), leader, world.node(leader))
        if exchanged is not None:
            what, after, leader_after = exchanged
            yield (what, node_id, "from", leader), self._led(world.with_node(node_id, after), leader, leader_after)
        fetch = self._brokers.fetch_of(node_id, world.node(node_id), leader)
        counted = self._brokers.fetched(world.node(leader), fetch)
        if counted is not None and counted != world.node(leader):
            yield ("the Fetch of", node_id, "arrives at", leader), self._led(world, leader, counted)

    def _propose(self, world: World, node_id: int, node: Node, *, shrinks: bool) -> Moves:
        if node.term is None or any(each.leader == node_id for each in self._proposals.values[world.proposals]):
            return
        for after, proposal in self._brokers.proposed(node_id, world.node(node_id), shrinks):
            proposals = self._proposals.number((*self._proposals.values[world.proposals], proposal))
            yield (
                ("broker", node_id, "proposes", set(proposal.isr)),
                world.with_node(node_id, after)._replace(proposals=proposals),
            )

    def _arrive_late(self, world: World, place: int, message: Fetch | Answer) -> Moves:
        others = self._late.values[world.late]
        rest = others[:place] + others[place + 1 :]
        if isinstance(message, Answer):
            after = self._brokers.answered_late(world.node(message.follower), message)
            if after is not None:
                yield (
                    ("late:", message),
                    world.with_node(message.follower, after)._replace(late=self._late.number(rest)),
                )
            return
        after = self._brokers.fetched(world.node(message.leader), message)
        if after is not None:
            yield ("late:", message), self._led(world._replace(late=self._late.number(rest)), message.leader, after)

    def _decide(self, world: World, proposal: Proposal) -> Moves:
        """The store carries it out or refuses it. The leader learns of it with the image."""
        store = self._stores.values[world.store]
        joining = all(store.registered[node_id - 1] == epoch for node_id, epoch in proposal.joining)
        joining = joining or self.core.mistake is Mistake.JOIN_IGNORES_REGISTRATIONS
        same = store.partition == proposal.before or (
            self.core.mistake is Mistake.IN_SYNC_CHANGE_IGNORES_THE_VERSION
            and store.partition.partition_epoch == proposal.before.partition_epoch + 1
        )
        if same and joining:
            isr = tuple(node_id for node_id in REPLICAS if node_id in proposal.isr)
            partition = replace(store.partition, isr=isr, partition_epoch=store.partition.partition_epoch + 1)
            after = world._replace(store=self._stores.number(Store(partition, store.registered)))
            if self.core.mistake is Mistake.IN_SYNC_CHANGE_IGNORES_THE_VERSION:
                after = self._without_proposal(after, proposal)
            yield ("the store takes", set(proposal.isr), "of", proposal.leader), self._without_useless(after)
        elif same:
            after = self._without_proposal(world, proposal)
            yield ("the store refuses", set(proposal.isr), "of", proposal.leader), self._seen(after, proposal.leader)

    def _without_proposal(self, world: World, proposal: Proposal) -> World:
        rest = tuple(each for each in self._proposals.values[world.proposals] if each != proposal)
        return world._replace(proposals=self._proposals.number(rest))

    # What may happen, or not

    def faults(self, world: World) -> Moves:
        """Each is counted: clients write, brokers fail, and the controller or a leader does what it need not."""
        budget = self._budgets.values[world.budget]
        for node_id in REPLICAS:
            node = self._nodes.values[world.node(node_id)]
            if node.term is not None:
                yield from self._ask_leader(world, node_id, node, budget)
            if node.is_alive and budget.crashes:
                yield from self._crash(world, node_id, budget)
            registered = self._stores.values[world.store].registered[node_id - 1] is not None
            if registered and (not node.is_alive or budget.expiries):
                after = self._expired(world, node_id)
                if node.is_alive:
                    after = after._replace(budget=self._spent(world.budget, "expiries"))
                yield ("the session of", node_id, "expires"), after
            leader = followed(node_id, node)
            if budget.delays and leader is not None:
                late = self._with_late(world.late, self._brokers.fetch_of(node_id, world.node(node_id), leader))
                after = self._without_useless(world._replace(late=late, budget=self._spent(world.budget, "delays")))
                yield ("the Fetch of", node_id, "to", leader, "will arrive once more"), after
            if budget.late_answers and leader is not None:
                answered = self._brokers.answered(node_id, world.node(node_id), leader, world.node(leader))
                if answered is not None:
                    counted, answer = answered
                    after = self._led(world._replace(late=self._with_late(world.late, answer)), leader, counted)
                    after = after._replace(budget=self._spent(world.budget, "late_answers"))
                    yield ("the answer of", leader, "to", node_id, "will arrive late"), self._without_useless(after)
        if budget.moves:
            for name in ("prefer", "resign"):
                moved = self._brokers.moved(world.store, name)
                if moved is not None:
                    after = world._replace(store=moved, budget=self._spent(world.budget, "moves"))
                    yield (name, self._stores.values[moved].partition), after

    def _ask_leader(self, world: World, node_id: int, node: Node, budget: Budget) -> Moves:
        number = world.node(node_id)
        if budget.records:
            written = self.scope.budget.records - budget.records
            appended = self._brokers.appended(node_id, number, written)
            if appended is not None:
                after = world.with_node(node_id, appended)._replace(budget=self._spent(world.budget, "records"))
                yield ("broker", node_id, "appends", written), after
        if budget.tickets and self._laws.is_replaced(number, world.observed):
            after = self._led(world, node_id, self._brokers.asked(number))
            after = after._replace(budget=self._spent(world.budget, "tickets"))
            yield ("broker", node_id, "asks for a confirmation"), after
        if budget.shrinks:
            for what, after in self._propose(world, node_id, node, shrinks=True):
                yield what, after._replace(budget=self._spent(world.budget, "shrinks"))

    def _crash(self, world: World, node_id: int, budget: Budget) -> Moves:
        less = self._spent(world.budget, "crashes")
        after = world.with_node(node_id, self._brokers.crashed(world.node(node_id), False))._replace(budget=less)
        yield ("broker", node_id, "crashes"), self._without_useless(after)
        if budget.lost_disks:
            less = self._spent(less, "lost_disks")
            observed = self._laws.observed.values[world.observed]
            observed = observed._replace(disks_lost=observed.disks_lost | {node_id})
            after = world.with_node(node_id, self._brokers.crashed(world.node(node_id), True))
            after = after._replace(budget=less, observed=self._laws.observed.number(observed))
            yield ("broker", node_id, "crashes and loses its disk"), self._without_useless(after)

    # Brokers come and see

    def _join(self, world: World, node_id: int) -> Moves:
        joined = self._brokers.joined(node_id, world.node(node_id), world.store)
        if joined is not None:
            after, store = joined
            after_world = self._led(world.with_node(node_id, after)._replace(store=store), node_id, after)
            yield ("broker", node_id, "joins"), self._without_useless(after_world)

    def _expired(self, world: World, node_id: int) -> World:
        store = self._stores.values[world.store]
        registered = tuple(None if place == node_id else epoch for place, epoch in enumerate(store.registered, 1))
        return world._replace(store=self._stores.number(store._replace(registered=registered)))

    def _seen(self, world: World, node_id: int) -> World:
        mine = [each for each in self._proposals.values[world.proposals] if each.leader == node_id]
        undecided = any(each.before == self._stores.values[world.store].partition for each in mine)
        after = self._brokers.shown(node_id, world.node(node_id), world.store, not undecided)
        return self._without_useless(self._led(world, node_id, after))

    def _led(self, world: World, node_id: int, number: int) -> World:
        """The world after something has happened to a leader: what it now tells is observed."""
        world = world.with_node(node_id, number)
        observed = self._laws.told(node_id, number, world.observed)
        if observed == world.observed:
            return world
        self._laws.check_copies(world[:3], world.observed, observed)
        return world._replace(observed=observed)

    @remembered
    def _spent(self, budget_number: int, name: str) -> int:
        budget = self._budgets.values[budget_number]
        return self._budgets.number(budget._replace(**{name: getattr(budget, name) - 1}))

    @remembered
    def _with_late(self, late_number: int, message: Fetch | Answer) -> int:
        """In any order: which of them arrives next is open."""
        return self._late.number(tuple(sorted((*self._late.values[late_number], message), key=repr)))

    # Fewer states

    def _without_useless(self, world: World) -> World:
        """Without Fetches and proposals that can have no effect any more."""
        late = self._late.values[world.late]
        if late:
            kept = tuple(
                message
                for message in late
                if (
                    self._brokers.may_be_heard(world.node(message.follower), message.epoch)
                    if isinstance(message, Answer)
                    else self._brokers.may_arrive(world.node(message.leader), message.epoch)
                )
            )
            world = world._replace(late=self._late.number(kept))
        proposals = self._proposals.values[world.proposals]
        if proposals:
            partition = self._stores.values[world.store].partition
            kept_proposals = tuple(each for each in proposals if self._may_matter(world, each, partition))
            world = world._replace(proposals=self._proposals.number(kept_proposals))
        return world

    def _may_matter(self, world: World, proposal: Proposal, partition: PartitionState) -> bool:
        """It may be carried out, or its leader does not know yet what became of it."""
        if proposal.before == partition:
            return True
        node = self._nodes.values[world.node(proposal.leader)]
        if self.core.mistake is Mistake.IN_SYNC_CHANGE_IGNORES_THE_VERSION:
            return proposal.before.partition_epoch + 1 == partition.partition_epoch
        return node.term is not None and node.term.epoch == proposal.epoch and node.view.partition == proposal.before
