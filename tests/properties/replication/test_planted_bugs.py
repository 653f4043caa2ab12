"""Bugs that replication has had elsewhere, or could have, planted one by one: the search of small states finds each.

A bug of the pure core is planted in its source, one of the code around it in the model (``Mistake``). The scope beside
it is one that finds it soon. ``test_small_scope.py`` searches the same scopes, without a bug, to their end and finds
nothing; ``make campaign-replicas`` the large ones.
"""

from __future__ import annotations

import pytest

from semel.metadata import election
from semel.replication import follower, replica_set
from tests.properties.replication.exhaustive import search
from tests.properties.replication.planted import Bug, planted
from tests.properties.replication.scopes import LARGE_SCOPES, SCOPES
from tests.properties.replication.small_cluster import SmallCluster
from tests.properties.replication.small_values import Mistake, Scope

CRASH = SCOPES["a crash, with and without its disk"]
EXPIRY = SCOPES["a session expires"]
EXPIRY_AND_JOIN = SCOPES["a session expires while a follower joins"]
EXPIRY_AND_LAG = LARGE_SCOPES["a session expires while a follower lags"]
LAST_CRASHES = SCOPES["the last replica crashes, with and without its disk"]
JOIN = SCOPES["a follower joins"]
JOIN_AND_LOST_DISK = SCOPES["a follower that joins loses its disk, and a late Fetch"]
LAG = SCOPES["followers lag"]
REPLACED_LEADER = SCOPES["a leader that was replaced asks for a confirmation, and two late Fetches"]

BUGS: dict[str, tuple[Bug | Mistake, Scope]] = {
    "59: the high watermark follows the committed set while a follower joins": (
        Bug(replica_set, "self._isr if self._proposed is None else self._isr | self._proposed", "self._isr"),
        JOIN,
    ),
    "59: a follower that leaves does not count before that is committed": (
        Bug(
            replica_set,
            "self._isr if self._proposed is None else self._isr | self._proposed",
            "self._isr if self._proposed is None else self._proposed",
        ),
        LAG,
    ),
    "58: the high watermark moves with too few replicas": (
        Bug(replica_set, "reached > self.high_watermark and self.has_enough", "reached > self.high_watermark"),
        LAG,
    ),
    "59: what the leader has not synced counts": (
        Bug(replica_set, "reached = self._durable_offset", "reached = self._log_end_offset"),
        CRASH,
    ),
    "60: a follower joins before the start of the epoch": (
        Bug(replica_set, "reach = max(self.high_watermark, self._epoch_start_offset)", "reach = self.high_watermark"),
        EXPIRY_AND_JOIN,
    ),
    "60: a follower joins with a Fetch of the process before": (
        Bug(replica_set, "and follower.broker_epoch == broker_epochs.get(replica)", ""),
        JOIN_AND_LOST_DISK,
    ),
    "60: a follower that loses its disk joins while it is being committed": (
        Mistake.JOIN_IGNORES_REGISTRATIONS,
        JOIN_AND_LOST_DISK,
    ),
    "59: a Fetch of the process before is progress": (
        Bug(
            replica_set,
            "if follower.broker_epoch is not None and broker_epoch < follower.broker_epoch:",
            "if False:",
        ),
        JOIN_AND_LOST_DISK,
    ),
    "65: ends are told before the high watermark has reached the start of the epoch": (
        Bug(replica_set, "return self.high_watermark >= self._epoch_start_offset", "return True"),
        EXPIRY,
    ),
    "61: a follower enters an epoch with the image": (Mistake.EPOCH_ENTERED_AT_THE_IMAGE, EXPIRY),
    "61: a follower truncates to its high watermark": (
        Bug(
            follower,
            "offset = min(own_end, end_offset) if own_epoch == epoch else own_end",
            "offset = log.high_watermark",
        ),
        EXPIRY,
    ),
    "61: a follower that diverges does not truncate": (
        Bug(
            follower,
            "offset = min(own_end, end_offset) if own_epoch == epoch else own_end",
            "offset = log.log_end_offset",
        ),
        EXPIRY,
    ),
    "61: a leader compares offsets only, and not epochs": (
        Bug(follower, "end[0] == asked.last_fetched_epoch and end[1] >= asked.offset", "end[1] >= asked.offset"),
        LARGE_SCOPES["two records, a leader that is moved twice"],
    ),
    "61: a late answer is taken for an answer to the last Fetch": (
        Mistake.LATE_ANSWER_COUNTS_FOR_THE_PRESENT,
        LARGE_SCOPES["two records, a leader that is moved twice, a late answer"],
    ),
    "61: a Fetch of a log that diverges is progress": (Mistake.DIVERGING_FETCH_IS_PROGRESS, EXPIRY),
    "59: a follower fetches on before it has synced": (Mistake.FETCH_BEFORE_THE_SYNC, CRASH),
    "59: a leader that becomes a follower fetches before it has synced what it wrote": (
        Mistake.FOLLOWS_BEFORE_THE_SYNC,
        EXPIRY,
    ),
    "66: a term takes the log end for the high watermark": (Mistake.TERM_BEGINS_AT_THE_LOG_END, EXPIRY),
    "63: a replica with a shorter log is elected when no other is there": (
        Bug(
            election,
            "isr = tuple(replica for replica in state.isr if replica in brokers)",
            "isr = _registered(image, state.isr) or _registered(image, state.replicas)",
        ),
        LAST_CRASHES,
    ),
    "63: a replica outside the in-sync set is elected": (
        Bug(election, "else _first(state, isr), isr)", "else _first(state, tuple(brokers)), isr)"),
        EXPIRY_AND_LAG,
    ),
    "64: a replica that lost its disk stays in the in-sync set": (Mistake.LOST_DISK_STAYS_IN_SYNC, CRASH),
    "64: a replica that lost its disk is taken out where it does not lead only": (
        Bug(election, "if node_id not in state.isr or len(state.replicas) == 1", "if node_id == state.leader"),
        CRASH,
    ),
    "62: a leader is elected under the epoch of the last one": (
        Bug(election, "else state.leader_epoch + 1", "else state.leader_epoch"),
        EXPIRY,
    ),
    "62: a leader that registers again keeps its epoch": (Mistake.REGISTRATION_KEEPS_THE_LEADER_EPOCH, CRASH),
    "62: an old leader changes the in-sync set of a new one": (
        Mistake.IN_SYNC_CHANGE_IGNORES_THE_VERSION,
        EXPIRY_AND_LAG,
    ),
    "62: a Fetch confirms an answer that it was sent before": (
        Mistake.FETCH_CONFIRMS_WHAT_IT_DID_NOT_ANSWER,
        REPLACED_LEADER,
    ),
    "62: a leader is confirmed without the others": (
        Bug(replica_set, "default=self.last_ticket)", "default=self.last_ticket) or self.last_ticket"),
        REPLACED_LEADER,
    ),
}


@pytest.mark.parametrize(("bug", "scope"), BUGS.values(), ids=BUGS)
def test_the_search_of_small_states_finds_it(bug: Bug | Mistake, scope: Scope) -> None:
    assert search(SmallCluster(scope, planted(bug))).broken is not None
