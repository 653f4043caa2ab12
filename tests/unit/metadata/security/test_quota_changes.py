"""Refusals of quotas, in Kafka's words."""

from __future__ import annotations

import pytest

from semel.errors import ErrorCode, KafkaError
from semel.metadata.controller import Refusal
from semel.metadata.image import ClusterImage
from semel.metadata.security.image import QuotasAltered
from semel.metadata.security.quota_changes import (
    Parts,
    QuotaEntry,
    QuotaFilterPart,
    QuotaResult,
    alter_client_quotas,
    describe_client_quotas,
)
from semel.security.quota_entities import QuotaEntity, Quoted

NOTHING = ClusterImage("cluster")
ALICE = (("user", "alice"),)


@pytest.mark.parametrize(
    ("parts", "name", "value", "message"),
    [
        ((), "producer_byte_rate", 1.0, "Invalid empty client quota entity"),
        ((("user", ""),), "producer_byte_rate", 1.0, "Empty user not supported"),
        ((("cat", "tom"),), "producer_byte_rate", 1.0, "Unhandled client quota entity type: cat"),
        (
            (("user", "a"), ("user", "b")),
            "producer_byte_rate",
            1.0,
            "Invalid client quota entity, duplicate entity entry user",
        ),
        (
            (("user", "a"), ("ip", None)),
            "producer_byte_rate",
            1.0,
            "Invalid quota entity combination, IP entity should not be combined with User or ClientId",
        ),
        ((("ip", "nowhere"),), "connection_creation_rate", 1.0, "nowhere is not a valid IP or resolvable host."),
        ((("ip", "::1"),), "producer_byte_rate", 1.0, "Invalid configuration key producer_byte_rate"),
        (ALICE, "connection_creation_rate", 1.0, "Invalid configuration key connection_creation_rate"),
        (ALICE, "producer_byte_rate", 0.0, "Quota producer_byte_rate must be greater than 0"),
        (ALICE, "request_percentage", float("nan"), "Quota request_percentage must be greater than 0"),
        (ALICE, "producer_byte_rate", 1.5, "producer_byte_rate cannot be a fractional value."),
        (ALICE, "consumer_byte_rate", 1e19, "Proposed value for consumer_byte_rate is too large for a LONG."),
    ],
)
def test_a_bad_entry_is_refused_and_the_good_one_beside_it_is_not(
    parts: Parts, name: str, value: float, message: str
) -> None:
    good = QuotaEntry((("user", None), ("client-id", "app")), (("request_percentage", 12.5),))
    decision = alter_client_quotas(NOTHING, [QuotaEntry(parts, ((name, value),)), good])
    assert decision.results == (
        QuotaResult(parts, Refusal(ErrorCode.INVALID_REQUEST, message)),
        QuotaResult(good.parts),
    )
    assert decision.changes == (QuotasAltered(QuotaEntity(Quoted.DEFAULT, "app"), {"request_percentage": 12.5}),)


def test_an_entity_or_a_quota_that_stands_twice_is_refused() -> None:
    once = QuotaEntry(ALICE, (("producer_byte_rate", 1.0),))
    twice = alter_client_quotas(NOTHING, [once, once])
    assert twice.changes == ()
    assert [result.refusal and result.refusal.message for result in twice.results] == [
        "Ignoring duplicate entity user alice"
    ] * 2
    (result,) = alter_client_quotas(NOTHING, [QuotaEntry(ALICE, once.quotas * 2)]).results
    assert result.refusal is not None
    assert result.refusal.message.startswith("Duplicate quota key producer_byte_rate")


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ((QuotaFilterPart("", 2),), ErrorCode.INVALID_REQUEST),
        ((QuotaFilterPart("user", 2), QuotaFilterPart("user", 1)), ErrorCode.INVALID_REQUEST),
        ((QuotaFilterPart("cat", 2),), ErrorCode.UNSUPPORTED_VERSION),
        ((QuotaFilterPart("user", 2), QuotaFilterPart("ip", 2)), ErrorCode.INVALID_REQUEST),
        ((QuotaFilterPart("user", 7),), ErrorCode.INVALID_REQUEST),
        ((QuotaFilterPart("user", 0),), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_bad_filter_is_refused(wanted: tuple[QuotaFilterPart, ...], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as raised:
        describe_client_quotas(NOTHING, wanted, strict=False)
    assert raised.value.code is code
