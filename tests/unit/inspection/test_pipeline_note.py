from __future__ import annotations

from semel.inspection.pipeline_note import Note, latest_note


def test_the_note_of_a_group_is_the_one_that_most_of_its_offsets_have() -> None:
    now, gone = Note("new", 3, owner="totals"), Note("old", 41, owner="totals")
    assert latest_note(map(str, (gone, now, now))) == now


def test_a_rewind_counts_more_than_what_was_before_it() -> None:
    before, after = Note("q", 41), Note("", -1, begin=0, generation=1)
    assert latest_note(map(str, (before, before, after))) == after


def test_metadata_of_consumers_is_no_note() -> None:
    assert latest_note(["", "host-7", str(Note("q", 2))]) == Note("q", 2)
    assert latest_note(["", "host-7"]) is None
