"""Results, settings, and that both admin clients have the same calls, each with an example."""

from __future__ import annotations

import hashlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

from semel import Admin, blocking
from semel.admin import (
    AclBinding,
    AclOperation,
    AclResourceType,
    NewTopic,
    QuotaEntity,
    Quoted,
    Results,
    ScramMechanism,
)
from semel.blocking import admin as blocking_admin
from semel.client.admin.acls import Acls
from semel.client.admin.cluster import Cluster
from semel.client.admin.configs import Configs
from semel.client.admin.groups import Groups
from semel.client.admin.partitions import Partitions
from semel.client.admin.quotas import Quotas
from semel.client.admin.topics import Topics
from semel.client.admin.transactions import Transactions
from semel.client.admin.users import Users
from semel.errors import AbortableError, ErrorCode
from semel.settings import SettingError
from semel.wire.apis import ApiKey
from semel.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from tests.unit.client.admin.admin_cluster import AdminCluster, Administered, run

PARTS: list[type[Any]] = [Topics, Configs, Partitions, Groups, Cluster, Transactions, Acls, Quotas, Users]


def calls(part: type[Any]) -> dict[str, Any]:
    return {name: call for name, call in vars(part).items() if not name.startswith("_")}


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__.lower())
def test_the_blocking_part_has_the_same_calls(part: type[Any]) -> None:
    twin = getattr(blocking_admin, part.__name__)
    assert list(calls(twin)) == list(calls(part))
    for name, call in calls(part).items():
        assert inspect.iscoroutinefunction(call), name
        assert inspect.signature(calls(twin)[name]) == inspect.signature(call), name


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__.lower())
def test_every_call_has_an_example(part: type[Any]) -> None:
    for name, call in calls(part).items():
        example = f"admin.{part.__name__.lower()}.{name}("
        assert f"await {example}" in call.__doc__, f"{part.__name__}.{name}"
        twin = calls(getattr(blocking_admin, part.__name__))[name]
        assert example in twin.__doc__
        assert "await" not in twin.__doc__


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__.lower())
def test_every_call_stands_in_the_documents(part: type[Any]) -> None:
    page = (Path(__file__).parents[4] / "docs" / "client.md").read_text()
    (row,) = re.findall(rf"^\| `admin\.{part.__name__.lower()}` \| (.*) \|$", page, re.MULTILINE)
    assert re.findall(r"`([a-z_]+)`", row) == list(calls(part))


def test_both_clients_have_every_part() -> None:
    admin = Admin(bootstrap_servers="nowhere:9092")
    assert [type(getattr(admin, part.__name__.lower())) for part in PARTS] == PARTS
    with blocking.Admin(bootstrap_servers="nowhere:9092") as twin:
        for part in PARTS:
            assert isinstance(getattr(twin, part.__name__.lower()), getattr(blocking_admin, part.__name__))


RESULTS: Results[str, int] = Results("abc", {"a": 1, "c": 3}, {"b": AbortableError(ErrorCode.INVALID_CONFIG, "no")})


def test_a_result_that_failed_raises_where_it_is_looked_at() -> None:
    assert RESULTS["a"] == 1
    assert list(RESULTS) == ["a", "b", "c"]
    assert "b" in RESULTS
    for look in (lambda: RESULTS["b"], lambda: dict(RESULTS), lambda: list(RESULTS.values()), RESULTS.all):
        with pytest.raises(AbortableError, match="INVALID_CONFIG: no"):
            look()
    with pytest.raises(KeyError):
        RESULTS["d"]
    assert repr(RESULTS) == "<Results succeeded: a, c; failed: b: INVALID_CONFIG: no>"


def test_later_results_count_for_what_they_know() -> None:
    later: Results[str, int] = Results("bc", {"b": 2}, {"c": AbortableError(ErrorCode.INVALID_CONFIG, "late")})
    both = RESULTS.updated(later)
    assert (list(both), both.succeeded, list(both.failed)) == (["a", "b", "c"], {"a": 1, "c": 3, "b": 2}, ["c"])


def test_a_setting_that_is_none_of_an_admin_client_is_refused_with_the_reason() -> None:
    with pytest.raises(SettingError, match=r"tried until default\.api\.timeout\.ms is over"):
        Admin(bootstrap_servers="nowhere:9092", retries=3)  # type: ignore[call-arg]
    with pytest.raises(SettingError, match=r"did you mean default\.api\.timeout\.ms"):
        Admin(bootstrap_servers="nowhere:9092", default_api_timeout=3)  # type: ignore[call-arg]


def test_a_repr_says_where_and_what() -> None:
    assert repr(Admin(bootstrap_servers="a:1,b:2")) == "<Admin a:1,b:2 open>"


def test_values_that_contradict_themselves_are_refused() -> None:
    with pytest.raises(ValueError, match="leave out partitions and replication_factor"):
        NewTopic("orders", 3, assignments={0: [1]})
    with pytest.raises(ValueError, match="not for both"):
        QuotaEntity(user="alice", ip="127.0.0.1")


def test_values_read_as_sentences() -> None:
    assert str(QuotaEntity(user="alice", client_id=Quoted.DEFAULT)) == "user 'alice', client-id the default"
    rule = AclBinding(AclResourceType.TOPIC, "orders", "User:alice", AclOperation.READ)
    assert str(rule) == "allow User:alice READ on topic 'orders' from *"


def test_a_password_is_salted_and_hashed_before_it_leaves() -> None:
    admin = Administered(AdminCluster())
    admin.cluster.answers[ApiKey.ALTER_USER_SCRAM_CREDENTIALS] = lambda request: AlterUserScramCredentialsResponse(
        results=[AlterUserScramCredentialsResult("alice", 0)]
    )
    run(admin.users.upsert("alice", "secret", mechanism=ScramMechanism.SCRAM_SHA_256, iterations=4096))
    (request,) = admin.bench.requests(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
    (sent,) = request.message.upsertions
    assert (sent.name, sent.mechanism, sent.iterations, len(sent.salt)) == ("alice", 1, 4096, 32)
    assert sent.salted_password == hashlib.pbkdf2_hmac("sha256", b"secret", sent.salt, 4096)
    with pytest.raises(ValueError, match="4095 iterations for user 'alice': Kafka takes 4096 or more"):
        run(admin.users.upsert("alice", "secret", iterations=4095))
