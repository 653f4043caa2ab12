from __future__ import annotations

import pytest

from semel.errors import DecodeError
from semel.log.durability.checkpoints import decode_leader_epochs, encode_leader_epochs
from semel.log.leader_epochs import LeaderEpochs


@pytest.fixture
def epochs() -> LeaderEpochs:
    return LeaderEpochs([(2, 10), (3, 20), (7, 50)])


def test_epoch_begins_with_its_first_batch() -> None:
    epochs = LeaderEpochs()
    assert epochs.latest is None
    for epoch, offset in [(0, 0), (0, 5), (4, 9), (4, 9)]:
        epochs.assign(epoch, offset)
    assert epochs.entries == [(0, 0), (4, 9)]
    assert epochs.latest == 4


@pytest.mark.parametrize(
    ("assigned", "entries"),
    [
        pytest.param((8, 50), [(2, 10), (3, 20), (8, 50)], id="nothing was written in the last epoch"),
        pytest.param((8, 15), [(2, 10), (8, 15)], id="the log was cut below two epochs"),
        pytest.param((3, 60), [(2, 10), (3, 60)], id="an epoch that was gone comes back"),
        pytest.param((7, 40), [(2, 10), (3, 20), (7, 40)], id="the same epoch, lower"),
        pytest.param((1, 5), [(1, 5)], id="below everything"),
    ],
)
def test_newer_word_replaces_what_conflicts_with_it(
    epochs: LeaderEpochs, assigned: tuple[int, int], entries: list[tuple[int, int]]
) -> None:
    epochs.assign(*assigned)
    assert epochs.entries == entries


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        pytest.param(7, (7, 99), id="the latest ends where the log does"),
        pytest.param(3, (3, 50), id="an older one ends where the next begins"),
        pytest.param(5, (3, 50), id="one that wrote nothing: the one below it"),
        pytest.param(2, (2, 20), id="the oldest"),
        pytest.param(1, (1, 10), id="below all that is known"),
        pytest.param(8, None, id="above all that is known"),
        pytest.param(-1, None, id="none"),
    ],
)
def test_end_offset_of_an_epoch(epochs: LeaderEpochs, epoch: int, answer: tuple[int, int]) -> None:
    assert epochs.end_offset_for(epoch, log_end_offset=99) == answer


def test_empty_log_knows_no_epoch() -> None:
    assert LeaderEpochs().end_offset_for(0, log_end_offset=0) is None


@pytest.mark.parametrize(("offset", "epoch"), [(9, None), (10, 2), (19, 2), (20, 3), (50, 7), (1000, 7)])
def test_epoch_of_an_offset(epochs: LeaderEpochs, offset: int, epoch: int | None) -> None:
    assert epochs.epoch_for(offset) == epoch


@pytest.mark.parametrize(
    ("offset", "entries"),
    [(51, [(2, 10), (3, 20), (7, 50)]), (50, [(2, 10), (3, 20)]), (21, [(2, 10), (3, 20)]), (10, []), (0, [])],
)
def test_cutting_the_end_takes_the_epochs_that_began_there(
    epochs: LeaderEpochs, offset: int, entries: list[tuple[int, int]]
) -> None:
    epochs.truncate_from_end(offset)
    assert epochs.entries == entries


@pytest.mark.parametrize(
    ("offset", "entries"),
    [
        (5, [(2, 10), (3, 20), (7, 50)]),
        (10, [(2, 10), (3, 20), (7, 50)]),
        (15, [(2, 15), (3, 20), (7, 50)]),
        (20, [(3, 20), (7, 50)]),
        (49, [(3, 49), (7, 50)]),
        (70, [(7, 70)]),
    ],
)
def test_cutting_the_start_moves_the_epoch_that_covers_it(
    epochs: LeaderEpochs, offset: int, entries: list[tuple[int, int]]
) -> None:
    epochs.truncate_from_start(offset)
    assert epochs.entries == entries


def test_text_is_kafkas(epochs: LeaderEpochs) -> None:
    text = encode_leader_epochs(epochs.entries)
    assert text == b"0\n3\n2 10\n3 20\n7 50\n"
    assert list(decode_leader_epochs(text)) == epochs.entries
    assert list(decode_leader_epochs(encode_leader_epochs([]))) == []


@pytest.mark.parametrize("text", [b"0\n2\n3 20\n2 10\n", b"0\n2\n2 20\n3 20\n", b"0\n1\n2\n", b"0\n1\n2 10 3\n"])
def test_text_that_breaks_the_law_is_refused(text: bytes) -> None:
    with pytest.raises(DecodeError):
        decode_leader_epochs(text)
