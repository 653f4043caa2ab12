"""What clients use of their quotas, and how long that mutes them."""

from __future__ import annotations

import pytest

from semel.broker.metrics.metrics import Counter
from semel.broker.quotas import client_quotas
from semel.broker.quotas.client_quotas import ClientLimits, ClientQuotas
from semel.security.quota_entities import QuotaEntity, Quoted
from semel.security.quotas import Windows
from semel.testing.virtual.clock import ManualClock
from tests.memory import held_bytes

ALICE = QuotaEntity(user="alice")
DEFAULT_CLIENT = QuotaEntity(client_id=Quoted.DEFAULT)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def quotas(clock: ManualClock) -> ClientQuotas:
    return ClientQuotas(clock, Counter(), Windows(), Windows())


def limits(quotas: ClientQuotas, user: str, client_id: str | None = "app") -> ClientLimits:
    found = quotas.limits(f"User:{user}", client_id)
    assert found is not None
    return found


def test_a_client_without_a_quota_has_no_limits(quotas: ClientQuotas) -> None:
    quotas.load({ALICE: {"producer_byte_rate": 1000.0}})
    assert quotas.limits("User:bob", "app") is None
    assert limits(quotas, "alice").fetched(10**9) == 0
    assert limits(quotas, "alice").fetch_bytes_max is None


def test_a_client_without_an_id_has_the_default(quotas: ClientQuotas) -> None:
    quotas.load({DEFAULT_CLIENT: {"producer_byte_rate": 1000.0}})
    assert limits(quotas, "alice", None).produced(12_000) == 2000


def test_what_was_used_counts_when_the_quota_changes(quotas: ClientQuotas, clock: ManualClock) -> None:
    quotas.load({ALICE: {"producer_byte_rate": 1000.0}})
    assert limits(quotas, "alice").produced(8000) == 0
    quotas.load({ALICE: {"producer_byte_rate": 500.0}})
    assert limits(quotas, "alice").produced(0) == 6000, "8000 at 500 a second, of which 10 were silent"


def test_one_answer_has_no_more_than_would_mute_a_client_that_was_silent(quotas: ClientQuotas) -> None:
    quotas.load({ALICE: {"consumer_byte_rate": 100.0}})
    assert limits(quotas, "alice").fetch_bytes_max == 1000
    assert limits(quotas, "alice").fetched(1000) == 0
    assert limits(quotas, "alice").fetched(1) == 10


def test_time_on_the_loop_mutes_the_next_request_for_a_window_at_most(quotas: ClientQuotas, clock: ManualClock) -> None:
    quotas.load({ALICE: {"request_percentage": 1.0}})
    of_alice = limits(quotas, "alice")
    of_alice.worked(100.0)
    assert of_alice.time_throttle_ms() == 0, "100 ms of ten seconds are one percent"
    of_alice.worked(5.0)
    assert of_alice.time_throttle_ms() == 500
    of_alice.worked(10_000.0)
    assert of_alice.time_throttle_ms() == 1000
    clock.advance(11_000)
    assert of_alice.time_throttle_ms() == 0


def test_an_address_connects_as_often_as_its_quota_says(quotas: ClientQuotas, clock: ManualClock) -> None:
    quotas.load(
        {
            QuotaEntity(ip=Quoted.DEFAULT): {"connection_creation_rate": 2.0},
            QuotaEntity(ip="10.0.0.9"): {"connection_creation_rate": 4.0},
        }
    )
    assert sum(quotas.admits("10.0.0.1") for _ in range(100)) == 20, "ten seconds of it at once"
    assert sum(quotas.admits("10.0.0.9") for _ in range(100)) == 40
    assert sum(quotas.admits("10.0.0.2") for _ in range(10)) == 10, "each address has its own"
    clock.advance(12_000)
    assert sum(quotas.admits("10.0.0.1") for _ in range(100)) == 20, "those that were not admitted do not count"
    quotas.load({ALICE: {"producer_byte_rate": 1.0}})
    assert all(quotas.admits("10.0.0.1") for _ in range(100))


def test_clients_with_ever_new_ids_do_not_fill_the_memory(
    quotas: ClientQuotas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_quotas, "CLIENTS_MAX", 100)
    quotas.load({DEFAULT_CLIENT: {"producer_byte_rate": 1000.0, "controller_mutation_rate": 1.0}})
    for number in range(1000):
        limits(quotas, "alice", f"client-{number}").mutated(1)
    assert max(len(quotas._limits), len(quotas._rates), len(quotas._buckets)) <= 100


def test_a_user_does_not_get_its_quota_back_by_using_ever_new_client_ids(
    quotas: ClientQuotas, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_quotas, "CLIENTS_MAX", 100)
    quotas.load({ALICE: {"producer_byte_rate": 1.0, "controller_mutation_rate": 1.0}})
    limits(quotas, "alice").mutated(1_000)
    throttled_ms = limits(quotas, "alice").produced(1_000_000)
    for number in range(1000):
        limits(quotas, "alice", f"client-{number}")
    assert limits(quotas, "alice").produced(1) >= throttled_ms > 0
    assert limits(quotas, "alice").mutations_throttle_ms() > 0


def test_client_ids_of_32_kilobytes_take_bounded_memory(quotas: ClientQuotas) -> None:
    quotas.load({DEFAULT_CLIENT: {"producer_byte_rate": 1000.0}})

    def ask() -> None:
        for number in range(1000):
            limits(quotas, "alice", f"{number}{'x' * 32_000}").produced(1)

    assert held_bytes(ask) < 2 * client_quotas.ID_CHARACTERS_MAX
