"""The one table of how a transaction moves, and the page that is drawn from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from semel.coordinator.transaction import state_diagram, transitions
from semel.coordinator.transaction.results import error_for_version
from semel.coordinator.transaction.states import IDLE, KAFKA_NAMES, LEGAL_SOURCES, PREPARED, TxnState
from semel.errors import ErrorCode
from semel.types import TopicPartition
from semel.wire.apis import ApiKey

PAGE = Path(__file__).parents[4] / "docs" / "design" / "transaction-states.md"


def test_the_numbers_and_names_are_kafkas() -> None:
    assert [(int(state), KAFKA_NAMES[state]) for state in TxnState] == [
        (0, "Empty"),
        (1, "Ongoing"),
        (2, "PrepareCommit"),
        (3, "PrepareAbort"),
        (4, "CompleteCommit"),
        (5, "CompleteAbort"),
        (6, "Dead"),
        (7, "PrepareEpochFence"),
    ]
    assert TxnState.PREPARE_EPOCH_FENCE.kafka_name == "PrepareEpochFence"


def test_the_table_is_kafkas() -> None:
    names = {
        KAFKA_NAMES[state]: sorted(KAFKA_NAMES[source] for source in sources)
        for state, sources in LEGAL_SOURCES.items()
    }
    idle = ["CompleteAbort", "CompleteCommit", "Empty"]
    assert names == {
        "Empty": idle,
        "Ongoing": [*idle, "Ongoing"],
        "PrepareCommit": ["Ongoing"],
        "PrepareAbort": [*idle, "Ongoing", "PrepareEpochFence"],
        "CompleteCommit": ["PrepareCommit"],
        "CompleteAbort": ["PrepareAbort"],
        "Dead": idle,
        "PrepareEpochFence": ["Ongoing"],
    }


def test_a_decision_has_one_way_on() -> None:
    """Scenario 17: the law of the table."""
    for prepared in PREPARED:
        (target,) = (state for state, sources in LEGAL_SOURCES.items() if prepared in sources)
        assert KAFKA_NAMES[target] == KAFKA_NAMES[prepared].replace("Prepare", "Complete")


def test_a_move_that_is_not_in_the_table_is_a_bug() -> None:
    empty = transitions.created("id", producer_id=1, timeout_ms=1, now_ms=1)
    with pytest.raises(AssertionError, match="may not become PREPARE_COMMIT"):
        transitions.prepared_v1(empty, committed=True, now_ms=1)
    ongoing = transitions.with_partitions(empty, frozenset({TopicPartition("t", 0)}), transaction_version=2, now_ms=1)
    with pytest.raises(AssertionError, match="may not become COMPLETE_ABORT"):
        transitions.completed(ongoing, now_ms=1)


def test_nothing_but_idle_ids_may_be_forgotten() -> None:
    assert LEGAL_SOURCES[TxnState.DEAD] == IDLE


def test_the_page_is_drawn_from_the_table() -> None:
    assert PAGE.read_text() == state_diagram.render(), (
        "run python -m semel.coordinator.transaction.state_diagram > docs/design/transaction-states.md"
    )


@pytest.mark.parametrize(
    ("api", "first"),
    [
        (ApiKey.INIT_PRODUCER_ID, 4),
        (ApiKey.ADD_PARTITIONS_TO_TXN, 2),
        (ApiKey.ADD_OFFSETS_TO_TXN, 2),
        (ApiKey.END_TXN, 2),
    ],
)
def test_older_versions_get_the_older_error(api: ApiKey, first: int) -> None:
    fenced = ErrorCode.PRODUCER_FENCED
    assert error_for_version(fenced, api, first) is fenced
    assert error_for_version(fenced, api, first - 1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert error_for_version(ErrorCode.INVALID_TXN_STATE, api, 0) is ErrorCode.INVALID_TXN_STATE
