"""How the runs of frameworks are judged: a verdict that never says no would prove nothing."""

from __future__ import annotations

import pytest

from tools.frameworks.environments import version_of
from tools.frameworks.killed_run import COPIES, COUNTS, KEYS, RECORDS, Written

COPIED: Written = [(None, b"v%d" % number) for number in range(RECORDS)]
COUNTED: Written = [(b"k%d" % (number % KEYS), b"%d" % (number // KEYS + 1)) for number in range(RECORDS)]


def test_copies_may_come_again_and_none_may_be_missing() -> None:
    assert COPIES.is_complete([*COPIED, *COPIED[:57]])
    assert COPIES.faults([*COPIED, *COPIED[:57]]) == []
    assert not COPIES.is_complete([*COPIED[1:], *COPIED[1:]])


def test_a_value_that_was_never_sent_is_a_fault() -> None:
    assert COPIES.faults([*COPIED, (None, b"v-1")]) == ["1 values that were never sent"]


def test_every_count_is_there_once() -> None:
    assert COUNTS.is_complete(COUNTED)
    assert COUNTS.faults(COUNTED) == []


@pytest.mark.parametrize(
    ("written", "fault"),
    [
        (COUNTED[:-1], "1 counts are missing and 0 are there again or wrong"),
        ([*COUNTED, COUNTED[7]], "0 counts are missing and 1 are there again or wrong"),
        ([*COUNTED[:-1], (b"k4", b"401")], "1 counts are missing and 1 are there again or wrong"),
    ],
)
def test_a_count_that_is_missing_or_there_again_is_a_fault(written: Written, fault: str) -> None:
    assert COUNTS.faults(written) == [fault]


def test_the_version_of_what_is_pinned_is_known() -> None:
    assert version_of("quix", "quixstreams").count(".") == 2
    with pytest.raises(KeyError, match=r"flink is not in requirements/quix\.txt"):
        version_of("quix", "flink")
