from __future__ import annotations

import pytest

from semel.errors import DecodeError
from semel.log.disk import File
from semel.log.segments.index_file import flush
from semel.log.segments.transaction_index import AbortedTransaction, TransactionIndex
from tests.unit.log.segments.index_content import content

# Producer 1 begins at 90, in the segment before; 4 begins at 108 and stays open until 140, so it holds the last stable
# offset while 2 and 3 are aborted.
ABORTED = [
    AbortedTransaction(1, first_offset=90, last_offset=105, last_stable_offset=106),
    AbortedTransaction(2, first_offset=110, last_offset=120, last_stable_offset=108),
    AbortedTransaction(3, first_offset=112, last_offset=130, last_stable_offset=108),
    AbortedTransaction(4, first_offset=108, last_offset=140, last_stable_offset=141),
]


@pytest.fixture
def index() -> TransactionIndex:
    index = TransactionIndex()
    for aborted in ABORTED:
        index.append(aborted)
    return index


@pytest.mark.parametrize(
    ("fetch_offset", "upper_bound_offset", "producers", "complete"),
    [
        pytest.param(0, 1000, [1, 2, 3, 4], False, id="everything, and the next segment may have more"),
        pytest.param(100, 106, [1], True, id="one that began in the segment before"),
        pytest.param(105, 106, [1], True, id="nothing but its marker"),
        pytest.param(106, 108, [], True, id="between transactions"),
        pytest.param(106, 109, [4], True, id="one whose marker comes last"),
        pytest.param(106, 110, [4], True, id="one that begins at the upper bound is left out"),
        pytest.param(121, 141, [3, 4], True, id="one that ended before is left out"),
        pytest.param(121, 142, [3, 4], False, id="beyond what was stable"),
        pytest.param(141, 150, [], False, id="behind all markers"),
    ],
)
def test_aborted_transactions_of_a_fetch__scenario_41(
    index: TransactionIndex, fetch_offset: int, upper_bound_offset: int, producers: list[int], complete: bool
) -> None:
    expected = [aborted for aborted in ABORTED if aborted.producer_id in producers]
    assert index.collect_aborted(fetch_offset, upper_bound_offset) == (expected, complete)


def test_empty_index_knows_of_none_and_does_not_end_the_search() -> None:
    assert TransactionIndex().collect_aborted(0, 10) == ([], False)


@pytest.mark.parametrize(
    "aborted",
    [
        pytest.param(AbortedTransaction(5, 135, 140, 141), id="a marker at the same offset"),
        pytest.param(AbortedTransaction(5, 142, 150, 140), id="a last stable offset that descends"),
        pytest.param(AbortedTransaction(5, 142, 150, 152), id="a last stable offset beyond the marker"),
        pytest.param(AbortedTransaction(5, 150, 150, 151), id="no records"),
    ],
)
def test_entries_only_ascend(index: TransactionIndex, aborted: AbortedTransaction) -> None:
    with pytest.raises(AssertionError):
        index.append(aborted)
    assert list(index) == ABORTED


@pytest.mark.parametrize(("offset", "kept"), [(141, 4), (140, 3), (121, 2), (105, 0), (0, 0)])
def test_truncation_drops_transactions_whose_marker_goes(index: TransactionIndex, offset: int, kept: int) -> None:
    index.truncate_to(offset)
    assert list(index) == ABORTED[:kept]
    assert index.entries == kept


def test_layout_is_kafkas(index: TransactionIndex, file: File) -> None:
    index.truncate_to(106)
    flush(index, file)
    assert content(file).hex(" ") == (
        "00 00 "  # version
        "00 00 00 00 00 00 00 01 "  # producer id
        "00 00 00 00 00 00 00 5a "  # first offset
        "00 00 00 00 00 00 00 69 "  # last offset
        "00 00 00 00 00 00 00 6a"  # last stable offset
    )


def test_loaded_index_is_what_was_flushed(index: TransactionIndex, file: File) -> None:
    flush(index, file)
    loaded = TransactionIndex.load(content(file), 100)
    assert list(loaded) == ABORTED
    assert not loaded.file.is_behind(loaded)


def test_entries_after_a_truncation_replace_those_in_the_file(index: TransactionIndex, file: File) -> None:
    flush(index, file)
    assert not index.file.is_behind(index)
    index.truncate_to(121)
    assert index.file.is_behind(index)
    flush(index, file)
    assert list(TransactionIndex.load(content(file), 100)) == ABORTED[:2]
    after = AbortedTransaction(9, 121, 123, 108)
    index.append(after)
    flush(index, file)
    assert list(TransactionIndex.load(content(file), 100)) == [*ABORTED[:2], after]


@pytest.mark.parametrize(("end_offset", "kept"), [(141, 4), (140, 3), (0, 0)])
def test_loading_drops_what_the_log_does_not_reach(
    index: TransactionIndex, file: File, end_offset: int, kept: int
) -> None:
    flush(index, file)
    loaded = TransactionIndex.load(content(file), 100, end_offset=end_offset)
    assert list(loaded) == ABORTED[:kept]
    flush(loaded, file)
    assert file.size() == kept * 34


def test_file_that_breaks_the_law_is_refused(index: TransactionIndex, file: File) -> None:
    flush(index, file)
    data = content(file)
    with pytest.raises(DecodeError, match="of 135 bytes"):
        TransactionIndex.load(data[:-1], 100)
    with pytest.raises(DecodeError, match="version 1"):
        TransactionIndex.load(b"\0\1" + data[2:], 100)
    with pytest.raises(DecodeError, match="after"):
        TransactionIndex.load(data[34:] + data[:34], 100)
    with pytest.raises(DecodeError, match="base 106"):
        TransactionIndex.load(data, 106)
    with pytest.raises(DecodeError, match="after"):
        TransactionIndex.load(data + bytes(34), 100)
