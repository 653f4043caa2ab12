"""The page of all transactional ids, those with the oldest open transactions first, and the offsets they hold up."""

from __future__ import annotations

from dataclasses import dataclass

from semel.admin import TransactionDescription, TransactionListing
from semel.console import cached_requests
from semel.console.pages import Page, Visit
from semel.console.paging import matches, sliced
from semel.console.texts import command, option


@dataclass(frozen=True, slots=True)
class TransactionRow:
    listing: TransactionListing
    found: TransactionDescription | None
    age_ms: int | None
    unstable_count: int | None
    """How many offsets read_committed readers of its partitions do not get yet; ``None`` if there are none."""


def transactions(visit: Visit) -> Page:
    connection = visit.connection
    every = cached_requests.transactions(connection)
    opened = cached_requests.open_transactions(connection)
    state = visit.query.get("state", "")
    longer_s = visit.number("longer") or 0
    listed = []
    for listing in every:
        found = opened.get(listing.transactional_id)
        age_ms = None
        if found is not None and found.start_time_ms is not None:
            age_ms = max(visit.now_ms - found.start_time_ms, 0)
        is_wanted = listing.state == state if state not in ("", "open") else True
        if state == "open":
            is_wanted = cached_requests.is_open(listing.state)
        if longer_s and (age_ms is None or age_ms < longer_s * 1_000):
            is_wanted = False
        if is_wanted and matches(visit, listing.transactional_id, str(listing.producer_id)):
            listed.append((listing, found, age_ms))
    listed.sort(key=lambda row: (row[2] is None, -(row[2] or 0), row[0].transactional_id))
    part = sliced(visit, "transactions", listed)
    partitions = {one for _, found, _ in part.rows if found is not None for one in found.partitions}
    ends = cached_requests.ends(connection, partitions) if partitions else {}
    rows = []
    for listing, found, age_ms in part.rows:
        unstable_count = None
        if found is not None:
            unstable_count = sum(
                ends[one].unstable_count for one in found.partitions if one in ends and not one.topic.startswith("__")
            )
        rows.append(TransactionRow(listing, found, age_ms, unstable_count or None))
    values = {
        "part": part,
        "rows": rows,
        "query": visit.query.get("q", ""),
        "state": state,
        "longer": visit.query.get("longer", ""),
        "states": sorted({listing.state for listing in every}),
        "id_count": len(every),
        "open_count": sum(cached_requests.is_open(listing.state) for listing in every),
        "line": _listing({listing.state for listing in every}, state, longer_s),
    }
    return Page("transactions.html", "Transactions", "transactions", values)


def _listing(states: set[str], state: str, longer_s: int) -> str:
    """Return the command that lists what is shown; it has no option for a part of a name."""
    wanted = sorted(one for one in states if state == one or (state == "open" and cached_requests.is_open(one)))
    options = [word for one in wanted for word in option("--state", one)]
    if longer_s:
        options += option("--longer-than", longer_s * 1_000)
    return command("txn", "list", options=options)
