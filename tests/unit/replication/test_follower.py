"""The follower: what it asks for, where it truncates, what it believes of what it copied."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from semel.errors import ErrorCode, KafkaError
from semel.log.leader_epochs import LeaderEpochs
from semel.replication.follower import (
    Append,
    FetchPosition,
    PartitionAnswer,
    RestartAt,
    TruncateTo,
    Wait,
    check_copied,
    decide,
    diverging_epoch,
    position,
)
from semel.wire.records import Record, build_batch


@dataclass
class Log:
    """A log of which only offsets and epochs are known."""

    log_end_offset: int
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    log_start_offset: int = 0
    high_watermark: int = 0

    @property
    def latest_epoch(self) -> int | None:
        return self.epochs.latest

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int] | None:
        return self.epochs.end_offset_for(epoch, self.log_end_offset)


def log(end: int, *epochs: tuple[int, int], start: int = 0, high_watermark: int = 0) -> Log:
    return Log(end, LeaderEpochs(epochs), start, high_watermark)


def decided(follower: Log, answer: PartitionAnswer) -> object:
    return decide(follower, answer, asked=position(follower))


def test_a_follower_asks_for_what_comes_after_its_end_and_names_the_epoch_of_its_last_batch() -> None:
    assert position(log(9, (0, 0), (3, 5), start=2)) == FetchPosition(9, 3, 2)
    assert position(log(0)) == FetchPosition(0, None, 0)


def test_records_are_appended_with_the_leaders_high_watermark_and_log_start() -> None:
    answer = PartitionAnswer(high_watermark=7, log_start_offset=1, records=b"records")
    assert decided(log(9, (0, 0)), answer) == Append(b"records", 7, 1)
    assert decided(log(9, (0, 0)), PartitionAnswer(high_watermark=9)) == Append(b"", 9, 0)


@pytest.mark.parametrize("now", [log(8, (0, 0)), log(9, (0, 0), (1, 8))])
def test_an_answer_to_what_the_log_is_not_any_more_changes_nothing(now: Log) -> None:
    asked = position(log(9, (0, 0)))
    answer = PartitionAnswer(diverging_epoch=(0, 3), records=b"records")
    assert decide(now, answer, asked=asked) == Wait(ErrorCode.NONE)


@pytest.mark.parametrize("code", [ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_an_error_is_waited_for(code: ErrorCode) -> None:
    assert decided(log(9, (0, 0)), PartitionAnswer(code)) == Wait(code)
    assert decided(log(9, (0, 0)), PartitionAnswer(9999)) == Wait(ErrorCode.UNKNOWN_SERVER_ERROR)


# Truncation


@pytest.mark.parametrize(
    ("leader", "follower", "diverging", "action"),
    [
        # The same epoch, and the leader has less of it.
        (log(6, (0, 0), (2, 6)), log(9, (0, 0)), (0, 6), TruncateTo(6)),
        # The follower led epoch 1 and wrote what no other has.
        (log(8, (0, 0), (2, 6)), log(8, (0, 0), (1, 5)), (0, 6), TruncateTo(5)),
        # ... or wrote nothing: only the epoch goes.
        (log(8, (0, 0), (2, 6)), log(6, (0, 0), (1, 6)), (0, 6), TruncateTo(6)),
        # The leader has an epoch between two of the follower's: the next Fetch compares epoch 1.
        (log(9, (1, 0), (3, 4), (6, 9)), log(9, (1, 0), (5, 7)), (3, 9), TruncateTo(7)),
        # None of the epochs is the same.
        (log(9, (3, 0), (6, 9)), log(9, (1, 0), (4, 7)), (3, 9), TruncateTo(7)),
        # All that the leader has is newer: what lies below its log start is on its way out.
        (log(9, (3, 2), (6, 9), start=2), log(5, (1, 0)), (1, 2), TruncateTo(2)),
        (log(9, (3, 2), (6, 9), start=2), log(5, (1, 4), start=4), (1, 2), RestartAt(2)),
    ],
)
def test_scenario_61_a_follower_truncates_to_where_the_diverging_epoch_ends(
    leader: Log, follower: Log, diverging: tuple[int, int], action: TruncateTo | RestartAt
) -> None:
    assert diverging_epoch(leader, position(follower)) == diverging
    assert decided(follower, PartitionAnswer(diverging_epoch=diverging)) == action


def test_scenario_61_the_high_watermark_is_not_where_a_follower_truncates() -> None:
    """What lies above it may be acknowledged: the follower's own high watermark lags behind the leader's."""
    follower = log(9, (0, 0), (1, 8), high_watermark=2)
    assert decided(follower, PartitionAnswer(diverging_epoch=(0, 9))) == TruncateTo(8)


def test_truncation_below_the_high_watermark_says_so() -> None:
    follower = log(9, (0, 0), high_watermark=7)
    assert decided(follower, PartitionAnswer(diverging_epoch=(0, 6))) == TruncateTo(6, loses_committed=True)


def test_a_log_that_shares_nothing_with_the_leader_begins_anew() -> None:
    follower = log(9, (4, 5), start=5, high_watermark=5)
    assert decided(follower, PartitionAnswer(diverging_epoch=(3, 2))) == RestartAt(2, loses_committed=True)


def test_a_leader_that_has_the_same_does_not_diverge() -> None:
    assert diverging_epoch(log(9, (0, 0), (2, 5)), FetchPosition(9, 2, 0)) is None
    assert diverging_epoch(log(9, (0, 0), (2, 5)), FetchPosition(5, 0, 0)) is None
    assert diverging_epoch(log(9, (0, 0), (2, 5)), FetchPosition(0, None, 0)) is None


def test_a_follower_with_an_epoch_that_its_leader_cannot_know_waits() -> None:
    with pytest.raises(KafkaError, match="epoch 3 is newer than every epoch of the leader's log") as refused:
        diverging_epoch(log(9, (2, 0)), FetchPosition(9, 3, 0))
    assert refused.value.code is ErrorCode.UNKNOWN_LEADER_EPOCH


# Behind the leader's log start


def test_a_follower_behind_the_leaders_log_start_begins_anew_there() -> None:
    answer = PartitionAnswer(ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=20)
    assert decided(log(9, (0, 0), high_watermark=9), answer) == RestartAt(20)
    assert decided(log(30, (0, 0)), answer) == Wait(ErrorCode.OFFSET_OUT_OF_RANGE)


def test_an_empty_log_that_begins_after_the_leaders_end_begins_anew() -> None:
    answer = PartitionAnswer(ErrorCode.OFFSET_OUT_OF_RANGE, log_start_offset=0)
    assert decided(log(9, start=9, high_watermark=9), answer) == RestartAt(0, loses_committed=True)


def test_an_empty_log_may_begin_before_the_leaders_log_start_where_that_lies_within_a_batch() -> None:
    records = batches((4, 3, 0), (7, 1, 0))
    answer = PartitionAnswer(high_watermark=8, log_start_offset=5, records=records)
    assert decided(log(5, start=5), answer) == Append(records, 8, 5, restart_at=4)
    assert decided(log(4, start=4), answer) == Append(records, 8, 5)
    assert decided(log(5, (0, 0)), answer) == Append(records, 8, 5)  # ... which ``check_copied`` will refuse.
    assert decided(log(5, start=5), PartitionAnswer(records=b"no batch")) == Append(b"no batch", 0, 0)


# What was copied


def batches(*shapes: tuple[int, int, int]) -> bytes:
    """(base offset, records, leader epoch), one batch each."""
    return b"".join(batch(*shape) for shape in shapes)


def batch(base_offset: int, count: int, epoch: int) -> bytes:
    records = [Record(base_offset + number, timestamp=0, value=b"v") for number in range(count)]
    return build_batch(records, base_offset=base_offset, partition_leader_epoch=epoch)


def test_sound_batches_are_taken_whole() -> None:
    records = batches((5, 2, 1), (7, 1, 1), (9, 3, 4))  # 8 was compacted away.
    copied = check_copied(records, next_offset=5, last_epoch=0)
    assert (bytes(copied.records), copied.next_offset, copied.last_epoch) == (records, 12, 4)
    assert [header.base_offset for header in copied.headers] == [5, 7, 9]


@pytest.mark.parametrize("cut", [1, 40, 61])
def test_a_last_batch_that_is_cut_off_is_dropped(cut: int) -> None:
    first = batch(5, 2, 1)
    copied = check_copied(first + batch(7, 2, 1)[:cut], next_offset=5, last_epoch=1)
    assert (bytes(copied.records), copied.next_offset) == (first, 7)
    assert check_copied(first[:cut], next_offset=5, last_epoch=3) == (b"", [], 5, 3)


def flipped(records: bytes, place: int) -> bytes:
    return records[:place] + bytes([records[place] ^ 1]) + records[place + 1 :]


@pytest.mark.parametrize(
    ("records", "text"),
    [
        (batches((4, 2, 1)), "batch at offset 4; expected 5 or later"),
        (batches((5, 2, 1), (6, 2, 1)), "batch at offset 6; expected 7 or later"),
        (batches((5, 2, 0)), "batch at offset 5 has epoch 0 after 1"),
        (batches((5, 2, 2), (7, 2, 1)), "batch at offset 7 has epoch 1 after 2"),
        (flipped(batches((5, 2, 1)), 70), "batch at offset 5 does not have the CRC"),
        (flipped(batches((5, 2, 1)), 16), "message format 3"),
    ],
)
def test_scenario_66_nothing_is_copied_that_is_damaged_or_out_of_order(records: bytes, text: str) -> None:
    with pytest.raises(KafkaError, match=text) as refused:
        check_copied(records, next_offset=5, last_epoch=1)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE


def test_a_batch_of_an_epoch_above_the_leader_s_is_not_copied() -> None:
    """The CRC does not cover the epoch, and a follower would claim it from then on."""
    with pytest.raises(KafkaError, match="epoch 9; the leader's is 8"):
        check_copied(batches((0, 1, 9)), next_offset=0, last_epoch=None, leader_epoch=8)
    assert check_copied(batches((0, 1, 8)), next_offset=0, last_epoch=None, leader_epoch=8).last_epoch == 8


def test_a_batch_without_an_epoch_is_not_copied() -> None:
    with pytest.raises(KafkaError, match="epoch -1 after None"):
        check_copied(batches((0, 1, -1)), next_offset=0, last_epoch=None)
