"""Every state of three replicas of a small partition is visited, and none breaks a law.

What is searched: ``small_cluster``; the laws: ``small_laws``; larger scopes: ``tools/campaigns/replicas.py``.
"""

from __future__ import annotations

import pytest

from tests.properties.replication.exhaustive import search
from tests.properties.replication.scopes import SCOPES
from tests.properties.replication.small_cluster import SmallCluster
from tests.properties.replication.small_values import Scope


@pytest.mark.parametrize("scope", SCOPES.values(), ids=SCOPES)
def test_no_law_is_broken_anywhere(scope: Scope) -> None:
    """Scenarios 58, 59, 60, 61, 63, 64 and 65."""
    searched = search(SmallCluster(scope))
    assert searched.broken is None, "\n".join((searched.broken, *searched.trace))
    assert searched.is_complete
    assert searched.states > 300, "the scope is too small to say anything"
