"""The replicas of one partition as its leader sees them, for one term: in-sync set, high watermark, confirmation.

The law: what lies below the high watermark is synced on every member of the *maximal* in-sync set, which has every
broker that may become the next leader. The maximal set is the committed one together with the one that is proposed and
whose outcome is not known. So a follower that joins counts from its proposal on, and one that leaves counts until its
leaving is known to be committed.

Safety does not depend on the clock: ``now_ms`` decides only which followers the leader proposes to remove. One object
is for one term of leadership: a new term begins without any knowledge of its followers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence


class ReplicaSet:
    """The replicas of one partition in one term of its leader.

    The caller reports each event with a method, which returns whether the high watermark moved (``replied``: whether
    ``confirmed_ticket`` moved). Every one of them may move ``confirmed_ticket``.
    """

    __slots__ = (
        "_counted",
        "_durable_offset",
        "_epoch_start_offset",
        "_followers",
        "_isr",
        "_log_end_offset",
        "_maximal_isr",
        "_node_id",
        "_proposed",
        "_tickets",
        "confirmed_ticket",
        "high_watermark",
        "last_ticket",
        "min_insync_replicas",
    )

    def __init__(
        self,
        *,
        node_id: int,
        replicas: Sequence[int],
        isr: Iterable[int],
        epoch_start_offset: int,
        log_end_offset: int,
        durable_offset: int,
        high_watermark: int,
        min_insync_replicas: int,
    ) -> None:
        """``high_watermark`` is the stored one. Call ``leader_synced`` next: that suffices to move it if the leader is
        the only member of the in-sync set."""
        self._node_id = node_id
        self._followers = {replica: _Follower() for replica in replicas if replica != node_id}
        self._epoch_start_offset = epoch_start_offset
        self._log_end_offset = log_end_offset
        self._durable_offset = durable_offset
        self.high_watermark = high_watermark
        """The high watermark of the partition. It never goes back within a term."""
        self.min_insync_replicas = min_insync_replicas
        self.last_ticket = 0
        """The newest ticket. It is the mark of a response to a follower that is sent now; see ``replied``."""
        self.confirmed_ticket = 0
        """This ticket and all before it are confirmed."""
        # The tickets that are not confirmed yet: (ticket, log end offset when it was requested).
        self._tickets: deque[tuple[int, int]] = deque()
        self._proposed: frozenset[int] | None = None
        self._isr = frozenset(isr)
        self._count_members()

    @property
    def isr(self) -> frozenset[int]:
        """The committed in-sync set, as far as this leader knows."""
        return self._isr

    @property
    def maximal_isr(self) -> frozenset[int]:
        """Every broker that may be in the committed set now."""
        return self._maximal_isr

    @property
    def replica_count(self) -> int:
        return len(self._followers) + 1

    @property
    def has_enough(self) -> bool:
        """Whether acks=all is possible: ``min.insync.replicas`` are in sync, or all replicas if there are fewer."""
        return len(self._isr) >= min(self.min_insync_replicas, self.replica_count)

    @property
    def is_settled(self) -> bool:
        """Whether the high watermark covers everything that an earlier leader acknowledged.

        Before that, ListOffsets must not return the end of the partition to clients.
        """
        return self.high_watermark >= self._epoch_start_offset

    def has_heard_from(self, replica: int) -> bool:
        """Whether a Fetch of this follower has come in this term, and since the follower has left by itself."""
        return self._followers[replica].broker_epoch is not None

    def offset_of(self, replica: int) -> int:
        """The offset below which a follower is known to have synced in this term; 0 before its first Fetch."""
        return self._followers[replica].offset

    # Progress of the logs

    def appended(self, log_end_offset: int) -> None:
        """The leader has written up to this offset. The records do not count before they are synced."""
        self._log_end_offset = log_end_offset

    def leader_synced(self, durable_offset: int) -> bool:
        self._durable_offset = durable_offset
        return self._advance()

    def fetched(self, replica: int, offset: int, *, broker_epoch: int, now_ms: float) -> bool:
        """A follower has fetched from ``offset``, so it has synced everything below.

        The caller has checked that the Fetch is of this leader epoch and that the follower's log does not diverge
        (``follower.diverging_epoch``): a follower that has to truncate has made no progress.
        """
        assert offset <= self._log_end_offset, f"broker {replica} at {offset}; the log ends at {self._log_end_offset}"
        follower = self._followers[replica]
        if follower.broker_epoch is not None and broker_epoch < follower.broker_epoch:
            return False  # Sent by an earlier process of this broker, perhaps with another disk.
        if offset >= self._log_end_offset:
            follower.behind_since_ms = None
        elif follower.last_end is not None and offset >= follower.last_end:
            follower.behind_since_ms = follower.last_fetch_ms
        elif follower.behind_since_ms is None:
            follower.behind_since_ms = now_ms
        follower.offset = offset
        follower.broker_epoch = broker_epoch
        follower.silent_since_ms = None
        follower.last_fetch_ms, follower.last_end = now_ms, self._log_end_offset
        return self._advance()

    # The in-sync set

    def proposal(self, now_ms: float, *, lag_max_ms: float, broker_epochs: Mapping[int, int]) -> frozenset[int] | None:
        """Return the in-sync set to propose: with the followers that may join, without those that lag or are silent.

        A silent follower has everything, but a confirmation waits for it: without records that it lacks, nothing else
        would show that the leader cannot reach it.

        ``None``: there is no change, or one is in progress. ``broker_epochs`` are the registrations in the image. **The
        commit may succeed only if the registrations of those that join are still the same**: if a follower that was not
        in the set lost its disk after its last Fetch, the partition's own state does not show it. Call ``proposed``
        before any other method. Call this one periodically: it finds followers that have stopped fetching.
        """
        reach = max(self.high_watermark, self._epoch_start_offset)
        wanted = {self._node_id}
        for replica, follower in self._followers.items():
            if follower.behind_since_ms is None and follower.offset < self._log_end_offset:
                follower.behind_since_ms = now_ms
            if replica in self._maximal_isr:
                follower.await_reply(self._tickets[0][0] if self._tickets else None, now_ms)
            behind_since_ms, silent_since_ms = follower.behind_since_ms, follower.silent_since_ms
            if (behind_since_ms is not None and now_ms - behind_since_ms > lag_max_ms) or (
                silent_since_ms is not None and now_ms - silent_since_ms > lag_max_ms
            ):
                continue
            if replica in self._isr or (
                follower.offset >= reach
                and follower.broker_epoch is not None
                and follower.broker_epoch == broker_epochs.get(replica)
            ):
                wanted.add(replica)
        return None if self._proposed is not None or wanted == self._isr else frozenset(wanted)

    def proposed(self, isr: frozenset[int]) -> None:
        """This set is being committed: its members count from now on."""
        assert self._proposed is None, f"{set(isr)} proposed while the outcome of {set(self._proposed)} is not known"
        assert self._node_id in isr, f"broker {self._node_id} proposes {set(isr)} and leads"
        for replica in isr - self._isr - {self._node_id}:
            offset = self._followers[replica].offset
            # Otherwise it could become leader without records that were acknowledged.
            assert offset >= self.high_watermark, f"broker {replica} joins at {offset}, below {self.high_watermark}"
        self._proposed = isr
        self._count_members()

    def isr_changed(self, isr: Iterable[int]) -> bool:
        """The image has this in-sync set, under this leader epoch.

        A follower that this leader did not propose to remove has left by itself, because its log is offline, or it is
        gone. It joins again by a Fetch that comes after this, not by what it had. The caller asks for that Fetch
        (``has_heard_from``): a follower that has everything sends none.
        """
        isr = frozenset(isr)
        expected = self._isr if self._proposed is None else self._proposed
        for replica, follower in self._followers.items():
            if replica in self._isr and replica in expected and replica not in isr:
                follower.broker_epoch = None
        self._isr = isr
        self._count_members()
        return self._advance()

    def require(self, min_insync_replicas: int) -> bool:
        """``min.insync.replicas`` has this value from now on."""
        self.min_insync_replicas = min_insync_replicas
        return self._advance()

    def proposal_settled(self) -> bool:
        """The proposal has been committed or refused, and ``isr_changed`` has received an image newer than that."""
        self._proposed = None
        self._count_members()
        return self._advance()

    # Confirmation

    def ask_confirmation(self) -> int:
        """Return a ticket for a response that the leader is about to send without a record of it in the log.

        Once ``confirmed_ticket`` has reached it: when the ticket was requested, no other leader had acknowledged
        anything; and everything that was in the log then is committed. A leader that is the only member of the in-sync
        set confirms itself.
        """
        self.last_ticket += 1
        self._tickets.append((self.last_ticket, self._log_end_offset))
        self._confirm()
        return self.last_ticket

    def replied(self, replica: int, mark: int) -> bool:
        """A follower has sent a Fetch of this leader epoch after it received the response with this mark.

        ``mark`` is ``last_ticket`` of this object at the moment when the response was sent. A Fetch that was sent
        before the response arrived belongs to the response before it.
        """
        follower = self._followers[replica]
        follower.confirmed_ticket = max(follower.confirmed_ticket, mark)
        follower.silent_since_ms = None
        return self._confirm()

    # Consequences

    def _count_members(self) -> None:
        self._maximal_isr = self._isr if self._proposed is None else self._isr | self._proposed
        self._counted = [follower for replica, follower in self._followers.items() if replica in self._maximal_isr]

    def _advance(self) -> bool:
        reached = self._durable_offset
        for follower in self._counted:
            if follower.offset < reached:
                reached = follower.offset
        moved = reached > self.high_watermark and self.has_enough
        if moved:
            self.high_watermark = reached
        self._confirm()
        return moved

    def _confirm(self) -> bool:
        if not self._tickets:
            return False
        before = self.confirmed_ticket
        mark = min((follower.confirmed_ticket for follower in self._counted), default=self.last_ticket)
        while self._tickets and self._tickets[0][0] <= mark and self._tickets[0][1] <= self.high_watermark:
            self.confirmed_ticket, _ = self._tickets.popleft()
        return self.confirmed_ticket > before


class _Follower:
    """What a leader knows of one follower in this term."""

    __slots__ = (
        "behind_since_ms",
        "broker_epoch",
        "confirmed_ticket",
        "last_end",
        "last_fetch_ms",
        "offset",
        "silent_since_ms",
    )

    def __init__(self) -> None:
        self.offset = 0
        self.broker_epoch: int | None = None
        """The broker epoch of its last Fetch; ``None`` if there was none in this term, or since it has left by
        itself."""
        self.behind_since_ms: float | None = None
        """Since when the follower lacks records of the leader; ``None`` while it has all of them."""
        self.last_fetch_ms = 0.0
        self.last_end: int | None = None
        """The leader's log end offset at the follower's last Fetch."""
        self.confirmed_ticket = 0
        self.silent_since_ms: float | None = None
        """Since when a confirmation waits for this follower. If it was removed for that: until its next Fetch."""

    def await_reply(self, ticket: int | None, now_ms: float) -> None:
        """Note that this is the oldest ticket that is not confirmed. ``None``: there is none."""
        if ticket is None or self.confirmed_ticket >= ticket:
            self.silent_since_ms = None
        elif self.silent_since_ms is None:
            self.silent_since_ms = now_ms
