"""The replicas of one partition as its leader sees them, for one term: in-sync set, high watermark, confirmation.

The law: what lies below the high watermark is synced on every member of the *maximal* in-sync set, which has every
broker that may become the next leader. The maximal set is the committed one together with the one that is proposed and
whose outcome is not known. So a follower that joins counts from its proposal on, and one that leaves counts until its
leaving is known to be committed.

Safety does not depend on the clock: ``now_ms`` decides only which followers the leader proposes to remove. One object
is one term of leadership. A new term begins with followers of which nothing is known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence


class ReplicaSet:
    """Each method tells one fact and returns whether the high watermark moved (``replied``: whether
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
        """``high_watermark``: the stored one. Tell ``leader_synced`` next: alone, the leader has what it needs."""
        self._node_id = node_id
        self._followers = {replica: _Follower() for replica in replicas if replica != node_id}
        self._epoch_start_offset = epoch_start_offset
        self._log_end_offset = log_end_offset
        self._durable_offset = durable_offset
        self.high_watermark = high_watermark
        """Never goes back in a term."""
        self.min_insync_replicas = min_insync_replicas
        self.last_ticket = 0
        """The mark that an answer to a follower carries when it leaves; see ``replied``."""
        self.confirmed_ticket = 0
        """This ticket and all before it are confirmed."""
        self._tickets: deque[tuple[int, int]] = deque()  # Not confirmed: (ticket, log end when it was asked).
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
        """Whether acks=all may be promised: ``min.insync.replicas``, or all replicas where there are fewer."""
        return len(self._isr) >= min(self.min_insync_replicas, self.replica_count)

    @property
    def is_settled(self) -> bool:
        """Whether this term knows of everything that an earlier leader acknowledged: ends may be told."""
        return self.high_watermark >= self._epoch_start_offset

    def offset_of(self, replica: int) -> int:
        """What a follower is known to have synced in this term; 0 before its first Fetch."""
        return self._followers[replica].offset

    # The log moves

    def appended(self, log_end_offset: int) -> None:
        """The leader has written up to here; nothing of it counts yet."""
        self._log_end_offset = log_end_offset

    def leader_synced(self, durable_offset: int) -> bool:
        self._durable_offset = durable_offset
        return self._advance()

    def fetched(self, replica: int, offset: int, *, broker_epoch: int, now_ms: float) -> bool:
        """A follower has everything below ``offset`` synced.

        The caller has checked that the Fetch is of this leader epoch and that the follower's log does not diverge
        (``follower.diverging_epoch``): a follower that is told to truncate has made no progress.
        """
        assert offset <= self._log_end_offset, f"broker {replica} at {offset}; the log ends at {self._log_end_offset}"
        follower = self._followers[replica]
        if follower.broker_epoch is not None and broker_epoch < follower.broker_epoch:
            return False  # Sent by a process that another one has replaced, perhaps on another disk.
        if offset >= self._log_end_offset:
            follower.behind_since_ms = None
        elif follower.last_end is not None and offset >= follower.last_end:
            follower.behind_since_ms = follower.last_fetch_ms
        elif follower.behind_since_ms is None:
            follower.behind_since_ms = now_ms
        follower.offset = offset
        follower.broker_epoch = broker_epoch
        follower.last_fetch_ms, follower.last_end = now_ms, self._log_end_offset
        return self._advance()

    # The in-sync set

    def proposal(self, now_ms: float, *, lag_max_ms: float, broker_epochs: Mapping[int, int]) -> frozenset[int] | None:
        """The in-sync set to propose: with the followers that may join, without those that lag.

        ``None``: no change, or one is under way. ``broker_epochs`` are the registrations in the image. **The commit may
        hold only if the registrations of those that join are still the same**: a follower that lost its disk after its
        last Fetch, and was not in the set, leaves no trace in the partition's own state. Call ``proposed`` before
        anything else happens. Call this from time to time: it notices followers that have stopped fetching.
        """
        reach = max(self.high_watermark, self._epoch_start_offset)
        wanted = {self._node_id}
        for replica, follower in self._followers.items():
            if follower.behind_since_ms is None and follower.offset < self._log_end_offset:
                follower.behind_since_ms = now_ms
            if follower.behind_since_ms is not None and now_ms - follower.behind_since_ms > lag_max_ms:
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
            # Else it could lead without what was acknowledged.
            assert offset >= self.high_watermark, f"broker {replica} joins at {offset}, below {self.high_watermark}"
        self._proposed = isr
        self._count_members()

    def isr_changed(self, isr: Iterable[int]) -> bool:
        """The image has this in-sync set, under this leader epoch."""
        self._isr = frozenset(isr)
        self._count_members()
        return self._advance()

    def proposal_settled(self) -> bool:
        """The proposal was carried out or refused, and an image that is newer than that was told to ``isr_changed``."""
        self._proposed = None
        self._count_members()
        return self._advance()

    # Confirmation

    def ask_confirmation(self) -> int:
        """A ticket for what the leader is about to tell without writing it.

        Once ``confirmed_ticket`` has reached it, no other leader had acknowledged anything when the ticket was asked,
        and everything that was in the log then is committed. A leader that is the only member confirms itself.
        """
        self.last_ticket += 1
        self._tickets.append((self.last_ticket, self._log_end_offset))
        self._confirm()
        return self.last_ticket

    def replied(self, replica: int, mark: int) -> bool:
        """A follower has sent a Fetch of this epoch in reply to an answer that left with this mark.

        ``mark`` is ``last_ticket`` of this object at the moment when the answer left. A Fetch that was sent before the
        answer arrived replies to the answer before it.
        """
        follower = self._followers[replica]
        follower.confirmed_ticket = max(follower.confirmed_ticket, mark)
        return self._confirm()

    # What follows from it

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

    __slots__ = ("behind_since_ms", "broker_epoch", "confirmed_ticket", "last_end", "last_fetch_ms", "offset")

    def __init__(self) -> None:
        self.offset = 0
        self.broker_epoch: int | None = None
        self.behind_since_ms: float | None = None
        """``None`` while it has everything that the leader has."""
        self.last_fetch_ms = 0.0
        self.last_end: int | None = None
        """Where the leader's log ended at the last Fetch."""
        self.confirmed_ticket = 0
