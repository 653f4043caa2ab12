"""Which properties are slow: they are left out of ``make unit`` and run in ``make test``."""

from __future__ import annotations

from pathlib import Path

import pytest

_HERE = Path(__file__).parent

# Those that take more than about three seconds of one core.
_SLOW = frozenset(
    {
        "broker/test_pieces.py",
        "client/test_arrow.py",
        "client/test_assignors.py",
        "client/test_bulk.py",
        "client/test_idempotence.py",
        "client/test_read_committed.py",
        "client/test_simulated.py",
        "client/test_transactions.py",
        "client/test_varints.py",
        "coordinator/test_assignors.py",
        "coordinator/test_classic_groups.py",
        "coordinator/test_consumer_groups.py",
        "coordinator/test_offsets.py",
        "coordinator/test_regex.py",
        "coordinator/test_small_scope.py",
        "coordinator/test_transaction_model.py",
        "log/test_admission.py",
        "log/test_cleaning_crashes.py",
        "log/test_compaction.py",
        "log/test_cut_files.py",
        "log/test_damaged_files.py",
        "log/test_producer_state_model.py",
        "log/test_truncation_crashes.py",
        "replication/test_planted_bugs.py",
        "replication/test_small_scope.py",
        "security/test_access_matrix.py",
        "security/test_planted_access_bugs.py",
        "wire/test_malformed_messages.py",
        "wire/test_oracles.py",
        "wire/test_reader_agreement.py",
        "wire/test_record_check.py",
        "wire/test_records_properties.py",
        "wire/test_round_trips.py",
        "wire/test_slices.py",
    }
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_HERE) and str(item.path.relative_to(_HERE)) in _SLOW:
            item.add_marker(pytest.mark.slow)


def pytest_configure() -> None:
    missing = [name for name in _SLOW if not (_HERE / name).exists()]
    assert not missing, f"{missing} in tests/properties/conftest.py do not exist"
