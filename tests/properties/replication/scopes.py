"""What is searched: small enough for every test run, and larger for a campaign."""

from __future__ import annotations

from tests.properties.replication.small_values import Budget, Scope

SCOPES = {
    "a follower joins": Scope(Budget(records=2, epochs=1), isr=(1, 2)),
    "followers lag": Scope(Budget(records=2, shrinks=1, epochs=1)),
    "a leader is moved": Scope(Budget(records=2, moves=1)),
    "a crash, with and without its disk": Scope(Budget(records=2, crashes=1, lost_disks=1)),
    "a crash, with and without its disk, and two late Fetches": Scope(
        Budget(records=1, crashes=1, lost_disks=1, delays=2)
    ),
    "a follower that joins loses its disk, and a late Fetch": Scope(
        Budget(records=1, crashes=1, lost_disks=1, delays=1, epochs=1), isr=(1, 2)
    ),
    "a session expires": Scope(Budget(records=2, expiries=1)),
    "a session expires while a follower joins": Scope(Budget(records=1, expiries=1), isr=(1, 2)),
    "the last replica crashes, with and without its disk": Scope(
        Budget(records=1, crashes=1, lost_disks=1), isr=(1,), min_insync_replicas=1
    ),
    "a session expires, and a late answer": Scope(Budget(records=1, expiries=1, late_answers=1)),
    "a leader that was replaced asks for a confirmation, and two late Fetches": Scope(
        Budget(records=1, expiries=1, delays=2, tickets=1)
    ),
}

LARGE_SCOPES = {
    "three records, a crash with and without its disk, two late Fetches": Scope(
        Budget(records=3, crashes=1, lost_disks=1, delays=2)
    ),
    "three records, an expired session, two late Fetches": Scope(Budget(records=3, expiries=1, delays=2)),
    "two records, a lagging follower, a crash with and without its disk": Scope(
        Budget(records=2, crashes=1, lost_disks=1, shrinks=1)
    ),
    "two records, a follower that joins, a crash with and without its disk, a late Fetch": Scope(
        Budget(records=2, crashes=1, lost_disks=1, delays=1), isr=(1, 2)
    ),
    "a session expires while a follower lags": Scope(Budget(records=1, expiries=1, shrinks=1)),
    "the sessions of all in-sync replicas expire": Scope(Budget(records=1, expiries=2), isr=(1, 2)),
    "two records, two expired sessions, three epochs": Scope(Budget(records=2, expiries=2, epochs=3)),
    "a crash with and without its disk, an expired session, three epochs": Scope(
        Budget(records=1, crashes=1, lost_disks=1, expiries=1, epochs=3)
    ),
    "two records, an expired session, a late answer": Scope(Budget(records=2, expiries=1, late_answers=1)),
    "two records, a leader that is moved twice": Scope(Budget(records=2, moves=2, epochs=3), leader=2),
    "two records, a leader that is moved twice, a late answer": Scope(
        Budget(records=2, moves=2, late_answers=1, epochs=3), leader=2
    ),
    "two records, a replaced leader asks for a confirmation, two late Fetches, a lagging follower": Scope(
        Budget(records=2, expiries=1, delays=2, tickets=1, shrinks=1)
    ),
}
