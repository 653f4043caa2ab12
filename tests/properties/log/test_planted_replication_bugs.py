"""Bugs of copying and truncating logs, planted one by one: the tests must see each of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from semel.errors import KafkaError
from semel.log import replica_copies
from semel.log.directory import LogDirectory
from semel.log.durability.checkpointer import Checkpointer
from semel.log.durability.commit import Committer
from semel.log.leader_epochs import LeaderEpochs
from semel.log.partition_log import PartitionLog
from semel.log.recovery import loading, truncation
from semel.log.recovery.startup import Startup
from semel.log.segments.segment import Segment
from semel.log.segments.transaction_index import TransactionIndex
from semel.log.truncations import Truncations
from semel.testing.virtual.page_cache import Unsynced
from tests.properties.log import test_truncation_crashes as crashes
from tests.unit.log import test_copying as copying
from tests.unit.log import test_stored_high_watermark as high_watermark
from tests.unit.log import test_truncations as truncations

Patch = pytest.MonkeyPatch


def takes_the_log_end_for_the_high_watermark(patch: Patch) -> None:
    patch.setattr(PartitionLog, "_high_watermark_at_start", lambda self: self.log_end_offset)


def believes_every_stored_high_watermark(patch: Patch) -> None:
    from semel.log.durability import checkpoints

    patch.setattr(checkpoints, "read_high_watermarks", checkpoints.read_offsets)


def keeps_the_high_watermark_of_lost_records(patch: Patch) -> None:
    patch.setattr(Startup, "_find_losses", lambda self, recovery_points: False)


def forgets_transactions_that_a_snapshot_has_ended(patch: Patch) -> None:
    patch.setattr(loading, "_snapshot_max", lambda segments, end_offset, high_watermark: end_offset)


def does_not_lower_what_was_confirmed(patch: Patch) -> None:
    patch.setattr(LogDirectory, "write_offsets", lambda self: None)


def does_not_lower_what_must_be_there(patch: Patch) -> None:
    patch.setattr(Truncations, "_lower", lambda self, planned: None)


def does_not_void_the_journal(patch: Patch) -> None:
    patch.setattr(Committer, "void", lambda self, offsets: None)


def does_not_sync_the_cut(patch: Patch) -> None:
    patch.setattr("semel.log.truncations.sync_cut", lambda disk, log, cut: None)


def keeps_the_snapshots_of_the_other_history(patch: Patch) -> None:
    patch.setattr(truncation, "remove_snapshots_above", lambda disk, folder, end_offset: None)


def keeps_the_epochs_of_the_other_history(patch: Patch) -> None:
    patch.setattr(LeaderEpochs, "truncate_from_end", lambda self, offset: None)


def keeps_the_aborted_transactions_of_the_other_history(patch: Patch) -> None:
    patch.setattr(TransactionIndex, "truncate_to", lambda self, offset: None)


def keeps_the_producers_of_the_other_history(patch: Patch) -> None:
    patch.setattr(truncation, "rebuild_producers", lambda disk, log: log.producers)


def truncates_what_a_group_holds(patch: Patch) -> None:
    patch.setattr(Committer, "when_settled", lambda self, logs, callback: callback())


def truncates_what_a_checkpoint_holds(patch: Patch) -> None:
    patch.setattr(Checkpointer, "when_no_checkpoint_runs", lambda self, callback: callback())


def writes_a_copy_over_the_end_of_a_segment(patch: Patch) -> None:
    patch.setattr(Segment, "takes_all", lambda self, *which: True)


def follows_with_an_older_epoch(patch: Patch) -> None:
    check = replica_copies.check_copied

    def blind(log: PartitionLog, batches: memoryview) -> object:
        epochs, log.epochs = log.epochs, LeaderEpochs()
        try:
            return check(log, batches)
        finally:
            log.epochs = epochs

    patch.setattr(replica_copies, "check_copied", blind)


def claims_an_epoch_without_a_batch(patch: Patch) -> None:
    patch.setattr(PartitionLog, "follow", lambda self: None)


def acknowledges_a_copy_before_its_sync(patch: Patch) -> None:
    def wrote(self: PartitionLog, awaited: bool = True) -> None:
        self.durable_offset = self.log_end_offset
        if self.on_write is not None:
            self.on_write(self)

    patch.setattr(PartitionLog, "wrote", wrote)


def replica() -> high_watermark.Replica:
    return high_watermark.Replica()


def cut_at_every_step() -> None:
    for unsynced in crashes.CRASHES:
        crashes.test_a_crash_at_any_step_leaves_the_longer_log_or_the_shorter_one(True, unsynced)


def cut_anywhere() -> None:
    for offset in truncations.ENDS:
        truncations.test_a_truncated_log_is_the_replay_of_what_is_left__scenario_61(offset, checkpoint=True)


def cut_twice() -> None:
    for offset in (14, 15, 16, 17):
        truncations.test_a_log_that_is_truncated_again_uses_no_snapshot_of_the_history_that_was_cut(offset)


PLANTED: list[tuple[Callable[[Patch], None], Callable[[], None]]] = [
    (
        takes_the_log_end_for_the_high_watermark,
        lambda: high_watermark.test_what_was_not_confirmed_is_not_shown_after_a_start(replica(), False),
    ),
    (
        believes_every_stored_high_watermark,
        lambda: high_watermark.test_without_a_sound_file_a_log_shows_nothing(replica(), (b"orders 0 3", b"orders 0 5")),
    ),
    (
        keeps_the_high_watermark_of_lost_records,
        lambda: high_watermark.test_of_records_that_the_disk_has_lost_nothing_counts_as_confirmed_later(replica()),
    ),
    (
        forgets_transactions_that_a_snapshot_has_ended,
        lambda: high_watermark.test_a_transaction_whose_marker_is_not_confirmed_holds_back_readers_after_a_start(
            replica(), True
        ),
    ),
    (does_not_lower_what_was_confirmed, truncations.test_what_was_confirmed_and_cut_is_not_confirmed_after_a_crash),
    (does_not_lower_what_must_be_there, cut_at_every_step),
    (does_not_void_the_journal, cut_at_every_step),
    (does_not_sync_the_cut, cut_at_every_step),
    (keeps_the_snapshots_of_the_other_history, cut_twice),
    (keeps_the_epochs_of_the_other_history, cut_anywhere),
    (keeps_the_aborted_transactions_of_the_other_history, cut_anywhere),
    (keeps_the_producers_of_the_other_history, cut_anywhere),
    (truncates_what_a_group_holds, truncations.test_what_is_under_way_in_a_group_is_synced_first),
    (
        truncates_what_a_checkpoint_holds,
        truncations.test_a_checkpoint_that_runs_is_waited_for_and_none_begins_with_the_log,
    ),
    (
        writes_a_copy_over_the_end_of_a_segment,
        copying.test_segments_are_rolled_by_the_follower_s_own_settings_between_batches,
    ),
    (
        follows_with_an_older_epoch,
        copying.test_an_answer_of_an_older_epoch_than_the_log_is_refused,
    ),
    (
        claims_an_epoch_without_a_batch,
        copying.test_a_leader_that_wrote_nothing_does_not_claim_its_epoch_when_it_follows,
    ),
    (acknowledges_a_copy_before_its_sync, copying.test_what_is_copied_goes_to_the_group_commit),
]


@pytest.mark.parametrize(("plant", "check"), PLANTED, ids=[plant.__name__ for plant, _ in PLANTED])
def test_a_planted_bug_is_seen(
    plant: Callable[[Patch], None], check: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, KafkaError, pytest.fail.Exception, KeyError)):
        check()


def test_the_checks_pass_without_a_bug() -> None:
    for check in dict.fromkeys(check for _, check in PLANTED if check is not cut_at_every_step):
        check()
    crashes.test_a_crash_at_any_step_leaves_the_longer_log_or_the_shorter_one(True, Unsynced.LOST)
