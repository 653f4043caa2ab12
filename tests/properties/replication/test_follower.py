"""A follower's log, whatever leaders it had before, becomes its leader's log, and loses only what is not in that."""

from __future__ import annotations

from itertools import accumulate, pairwise, takewhile

from hypothesis import given
from hypothesis import strategies as st

from semel.replication.follower import (
    Append,
    PartitionAnswer,
    TruncateTo,
    check_copied,
    decide,
    diverging_epoch,
    position,
)
from tests.properties.replication.small_values import Log, LogView, Written, batch, read


@st.composite
def logs_of_leaders(draw: st.DrawFn) -> list[Log]:
    """Each leader begins with a part of the log of a leader before it, and writes under an epoch of its own."""
    logs = [Log()]
    epoch = number = 0
    for _ in range(draw(st.integers(1, 6))):
        before = draw(st.sampled_from(logs))
        log = before.truncated(draw(st.integers(0, len(before.records)))).with_epoch(epoch)
        for _ in range(draw(st.integers(0, 3))):
            log = log.appended(Written(epoch, number))
            number += 1
        logs.append(log)
        epoch += draw(st.integers(1, 2))
    return logs


@given(logs_of_leaders(), st.data())
def test_scenario_61_a_follower_gets_equal_and_truncates_exactly_what_its_leader_does_not_have(
    logs: list[Log], data: st.DataObject
) -> None:
    leader = logs[-1]
    former = data.draw(st.sampled_from(logs))
    log = former.truncated(data.draw(st.integers(0, len(former.records))))
    pairs = zip(log.records, leader.records, strict=False)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    shortest = len(log.records)
    for _ in range(40):
        view = LogView(log)
        asked = position(view)
        diverging = diverging_epoch(LogView(leader), asked)
        sent = b""
        if diverging is None:
            assert leader.records[: asked.offset] == log.records, "the same last epoch and offset, and not the same log"
            sent = b"".join(batch(at, leader.records[at]) for at in range(asked.offset, len(leader.records))[:2])
        match decide(view, PartitionAnswer(diverging_epoch=diverging, records=sent), asked=asked):
            case TruncateTo(offset):
                log = log.truncated(offset)
                shortest = min(shortest, offset)
            case Append(records):
                copied = check_copied(records, next_offset=asked.offset, last_epoch=asked.last_fetched_epoch)
                log = log.appended(*(written for each in _batches(bytes(copied.records)) for written in read(each)))
                if not records:
                    break
            case other:
                raise AssertionError(other)
    assert log.records == leader.records
    assert shortest == shared


def _batches(records: bytes) -> list[bytes]:
    sizes = [header.size_bytes for header in check_copied(records, next_offset=0, last_epoch=None).headers]
    return [records[start:end] for start, end in pairwise(accumulate(sizes, initial=0))]
