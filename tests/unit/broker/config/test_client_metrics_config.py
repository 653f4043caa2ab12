"""Subscriptions to client metrics: which clients they may name."""

from __future__ import annotations

import pytest

from semel.broker.config.client_metrics_config import CLIENT_METRICS_SETTINGS, check_client_metrics
from semel.errors import ErrorCode, KafkaError
from semel.settings import SettingError


def test_patterns_of_known_attributes_are_accepted() -> None:
    check_client_metrics({"match": "client_id=app-[0-9]+, client_software_name=apache-kafka-java"})
    check_client_metrics({})


@pytest.mark.parametrize("match", ["colour=red", "client_id", "client_id=(", "client_id=" + "a" * 4096])
def test_a_pattern_that_matches_no_client_is_refused(match: str) -> None:
    with pytest.raises(KafkaError) as refused:
        check_client_metrics({"match": match})
    assert refused.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize("interval", ["99", "3600001"])
def test_an_interval_has_bounds(interval: str) -> None:
    with pytest.raises(SettingError, match="between 100 and 3600000"):
        CLIENT_METRICS_SETTINGS.parse({"interval.ms": interval})
