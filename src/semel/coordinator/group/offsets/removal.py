"""The tombstones that remove offsets which have expired, or whose topic was deleted.

The law: a tombstone removes the offsets of its partition that are below it in the log, pending ones included. So expiry
skips a partition with a pending offset, and the deletion of a topic skips the offsets of a newer topic of its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final
from uuid import UUID

from semel.coordinator.group.offsets.expiry import expires_ms
from semel.coordinator.group.offsets.offset_state import OffsetState
from semel.coordinator.group.records import GroupRecord, OffsetKey, OffsetTombstone

# A decision is one batch of the log, and a batch has a size limit.
RECORDS_PER_BATCH_MAX: Final = 1000


def expired(state: OffsetState, now_ms: int, examined_max: int) -> Iterator[list[GroupRecord]]:
    """Return batches of tombstones for expired offsets, and for empty groups without offsets.

    No further group is examined after ``examined_max`` offsets; a group without offsets counts as one.

    Until the tombstones are replayed, another call returns them again: a batch that could not be written is not lost.
    """
    due: list[str] = []
    room = examined_max
    for group_id in state.expiry.take_due(now_ms):
        due.append(group_id)
        room -= max(1, state.committed.count(group_id))
        if room <= 0:
            break
    return _batches(_expired_of(state, group_id, now_ms) for group_id in due)


def of_topic(state: OffsetState, topic: str, topic_id: UUID | None, below: int) -> Iterator[list[GroupRecord]]:
    """Yield batches of tombstones for the offsets of a deleted topic, pending ones included.

    Offsets from log offset ``below`` on were committed after the deletion, for another topic. A batch is made when it
    is asked for, from the offsets that there are then.
    """
    pending = dict.fromkeys(stored.commit.key for stored in state.pending.of_topic(topic))
    batch: list[GroupRecord] = []
    for key in chain(_committed_keys(state, topic, pending), pending):
        if _all_belong_to(state, key, topic_id, below):
            batch.append(OffsetTombstone(key))
            # Before another offset is looked at: it may be committed again until the next batch is asked for.
            if len(batch) == RECORDS_PER_BATCH_MAX:
                yield batch
                batch = []
    if batch:
        yield batch


def _committed_keys(state: OffsetState, topic: str, pending: dict[OffsetKey, None]) -> Iterator[OffsetKey]:
    """Yield the keys of the topic's committed offsets, and take them out of the ``pending`` ones."""
    for group_id in state.committed.groups_of_topic(topic):
        for key in state.committed.keys_of_topic(group_id, topic):
            pending.pop(key, None)
            yield key


def same_topic(one: UUID | None, other: UUID | None) -> bool:
    """Whether two topics of one name may be the same: not every client and record has a topic id."""
    return one is None or other is None or one == other


def _expired_of(state: OffsetState, group_id: str, now_ms: int) -> list[GroupRecord]:
    """Return the tombstones of one group, and set when to examine it again if it exists."""
    group = state.membership(group_id)
    if group is None:
        return []
    retention = group.retention()
    tombstones: list[GroupRecord] = []
    # No event is sent when a transaction ends, a member leaves or a subscription changes: such a group is examined in
    # every sweep.
    next_sweep_ms = now_ms + 1
    later = [next_sweep_ms] if state.pending.has_group(group_id) or not group.is_empty else []
    for stored in state.committed.of_group(group_id):
        key = stored.commit.key
        if retention is None or key in state.pending or group.is_subscribed(key.topic):
            later.append(next_sweep_ms)
        elif (expiry_ms := expires_ms(stored.commit, retention, state.settings.retention_ms)) > now_ms:
            later.append(expiry_ms)
        else:
            tombstones.append(OffsetTombstone(key))
    forgotten = () if later else state.groups.tombstones(group_id)
    # The group's own tombstones go into the batch of its last offsets, or into a later sweep: never before them.
    if not tombstones or len(tombstones) + len(forgotten) <= RECORDS_PER_BATCH_MAX:
        tombstones += forgotten
    # A tombstone that is not written leaves the group due.
    state.expiry.set_earlier(group_id, now_ms if tombstones else min(later, default=next_sweep_ms))
    return tombstones


def _all_belong_to(state: OffsetState, key: OffsetKey, topic_id: UUID | None, below: int) -> bool:
    committed = state.committed.get(key)
    stored = (*state.pending.of_key(key), *(() if committed is None else (committed,)))
    # None is left if its transaction was aborted meanwhile.
    return bool(stored) and all(one.log_offset < below and same_topic(one.commit.topic_id, topic_id) for one in stored)


def _batches(parts: Iterable[list[GroupRecord]]) -> Iterator[list[GroupRecord]]:
    """Yield the parts in batches of a bounded size. Only a part that is larger than a batch is split."""
    batch: list[GroupRecord] = []
    for part in parts:
        if batch and len(batch) + len(part) > RECORDS_PER_BATCH_MAX:
            yield batch
            batch = []
        batch.extend(part)
        while len(batch) > RECORDS_PER_BATCH_MAX:
            yield batch[:RECORDS_PER_BATCH_MAX]
            batch = batch[RECORDS_PER_BATCH_MAX:]
    if batch:
        yield batch
