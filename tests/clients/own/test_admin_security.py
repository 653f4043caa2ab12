"""ACLs, quotas and SCRAM users with our own admin client, on Apache Kafka 4.3 and 3.9 with an authorizer."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pytest

from semel import Admin
from semel.admin import (
    AclBinding,
    AclFilter,
    AclOperation,
    AclPatternType,
    AclPermission,
    AclResourceType,
    QuotaEntity,
    Quoted,
    ScramMechanism,
)
from semel.errors import AbortableError, AuthorizationFailed, ErrorCode
from tools.brokers import apache_kafka
from tools.kafka_jars import KAFKA_3, KAFKA_4
from tools.patience import PATIENCE_S
from tools.ports import HOST, free_port
from tools.server import Server, running

pytestmark = pytest.mark.kafka

# Whoever connects without saying who they are may do everything. Others say who they are, and may do what they may.
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": "org.apache.kafka.common.security.scram."
    "ScramLoginModule required;",
}

_names = itertools.count()

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Guarded:
    bootstrap_servers: str
    guarded_servers: str
    """Where one has to say who one is."""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(version, id=f"kafka-{version}", marks=pytest.mark.needs(f"kafka-{version}"))
        for version in (KAFKA_4, KAFKA_3)
    ],
)
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    open_port, guarded_port, controller_port = free_port(), free_port(), free_port()
    listeners = f"PLAINTEXT://{HOST}:{open_port},SASL_PLAINTEXT://{HOST}:{guarded_port}"
    settings = {
        **SETTINGS,
        "listeners": f"{listeners},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": listeners,
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
    }
    server = apache_kafka(tmp_path_factory.mktemp("kafka"), version=request.param, settings=settings, heap="512m")
    with running(Server(replace(server.launch, port=open_port))):
        yield Guarded(f"{HOST}:{open_port}", f"{HOST}:{guarded_port}")


@pytest.fixture
def name() -> str:
    return f"guarded-{next(_names)}"


def run(kafka: Guarded, scenario: Callable[[Admin], Coroutine[Any, Any, None]]) -> None:
    async def within_time() -> None:
        async with asyncio.timeout(PATIENCE_S), Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
            await scenario(admin)

    asyncio.run(within_time())


async def becomes(expected: T, look: Callable[[], Awaitable[T]]) -> None:
    """The controller has it at once, the broker that is asked a moment later."""
    found = await look()
    for _ in range(100):
        if found == expected:
            return
        await asyncio.sleep(0.05)
        found = await look()
    assert found == expected


def test_rules_are_created_found_and_deleted(kafka: Guarded, name: str) -> None:
    async def scenario(admin: Admin) -> None:
        read = AclBinding(AclResourceType.TOPIC, name, f"User:{name}", AclOperation.READ)
        deny = AclBinding(
            AclResourceType.GROUP,
            name,
            f"User:{name}",
            AclOperation.ALL,
            AclPermission.DENY,
            host="10.0.0.1",
            pattern_type=AclPatternType.PREFIXED,
        )
        assert (await admin.acls.create([read, deny])).all() == {read: None, deny: None}
        assert (await admin.acls.create([read])).all() == {read: None}, "one that is there already is no error"
        of_this_user = AclFilter(principal=f"User:{name}")

        async def rules(matching: AclFilter = of_this_user) -> set[AclBinding]:
            return set(await admin.acls.describe(matching))

        await becomes({read, deny}, rules)
        assert {read, deny} <= set(await admin.acls.describe())
        assert await rules(AclFilter(AclResourceType.TOPIC, name)) == {read}
        match = AclFilter(AclResourceType.GROUP, f"{name}-more", pattern_type=AclPatternType.MATCH)
        assert await rules(match) == {deny}
        assert await rules(AclFilter(permission=AclPermission.DENY, principal=f"User:{name}")) == {deny}
        assert await rules(AclFilter(principal="User:nobody")) == set()

        nobody = AclFilter(principal="User:nobody")
        deleted = (await admin.acls.delete([of_this_user, nobody])).all()
        assert set(deleted[of_this_user]) == {read, deny}
        assert deleted[nobody] == ()
        await becomes(set[AclBinding](), rules)

    run(kafka, scenario)


def test_a_rule_that_makes_no_sense_is_refused_and_the_others_are_created(kafka: Guarded, name: str) -> None:
    async def scenario(admin: Admin) -> None:
        good = AclBinding(AclResourceType.TOPIC, name, "User:alice", AclOperation.WRITE)
        bad = AclBinding(AclResourceType.TOPIC, name, "alice", AclOperation.WRITE)
        results = await admin.acls.create([bad, good])
        assert list(results.succeeded) == [good]
        assert results.failed[bad].code is ErrorCode.INVALID_REQUEST
        assert "the rule: allow alice WRITE on topic" in str(results.failed[bad])

    run(kafka, scenario)


def test_quotas_are_set_found_and_removed(kafka: Guarded, name: str) -> None:
    async def scenario(admin: Admin) -> None:
        alone = QuotaEntity(user=name)
        with_default = QuotaEntity(user=name, client_id=Quoted.DEFAULT)
        set_quotas = {
            alone: {"producer_byte_rate": 1_000.0, "consumer_byte_rate": 2_000.0},
            with_default: {"request_percentage": 12.5},
        }
        assert (await admin.quotas.alter({**set_quotas}, validate_only=True)).failed == {}
        assert await admin.quotas.describe(alone) == {}
        (await admin.quotas.alter({**set_quotas})).all()
        await becomes(set_quotas, lambda: admin.quotas.describe(alone))
        assert await admin.quotas.describe(alone, strict=True) == {alone: set_quotas[alone]}
        assert set_quotas.items() <= (await admin.quotas.describe()).items()
        any_user = await admin.quotas.describe(QuotaEntity(user=Quoted.ANY, client_id=Quoted.DEFAULT))
        assert any_user[with_default] == {"request_percentage": 12.5}

        change = {alone: {"producer_byte_rate": None, "consumer_byte_rate": 5.0}}
        (await admin.quotas.alter(change)).all()
        await becomes({alone: {"consumer_byte_rate": 5.0}}, lambda: admin.quotas.describe(alone, strict=True))

    run(kafka, scenario)


def test_quotas_of_an_address_and_of_everybody_else(kafka: Guarded) -> None:
    async def scenario(admin: Admin) -> None:
        here, others = QuotaEntity(ip="127.0.0.9"), QuotaEntity(client_id=Quoted.DEFAULT)
        quotas = {here: {"connection_creation_rate": 7.0}, others: {"producer_byte_rate": 9e9}}
        (await admin.quotas.alter({**quotas})).all()
        for entity, values in quotas.items():
            await becomes({entity: values}, lambda entity=entity: admin.quotas.describe(entity, strict=True))  # type: ignore[misc]
        results = await admin.quotas.alter({here: {"nonsense": 1.0}, others: {"producer_byte_rate": None}})
        assert list(results.succeeded) == [others]
        assert results.failed[here].code is ErrorCode.INVALID_REQUEST
        with pytest.raises(ValueError, match="only a filter can be about any"):
            await admin.quotas.alter({QuotaEntity(user=Quoted.ANY): {"producer_byte_rate": 1.0}})

    run(kafka, scenario)


def test_users_get_passwords_and_lose_them(kafka: Guarded, name: str) -> None:
    async def scenario(admin: Admin) -> None:
        with pytest.raises(AbortableError, match=f"user '{name}'") as unknown:
            await admin.users.describe(name)
        assert unknown.value.code is ErrorCode.RESOURCE_NOT_FOUND
        await admin.users.upsert(name, "secret")
        await admin.users.upsert(name, "secret", mechanism=ScramMechanism.SCRAM_SHA_256, iterations=4096)
        both = {ScramMechanism.SCRAM_SHA_512: 8192, ScramMechanism.SCRAM_SHA_256: 4096}

        async def listed() -> Any:
            return (await admin.users.list()).get(name)

        await becomes(both, listed)
        results = await admin.users.describe_many([name, "nobody"])
        assert results[name] == both
        assert results.failed["nobody"].code is ErrorCode.RESOURCE_NOT_FOUND

        await admin.users.delete(name)
        await becomes({ScramMechanism.SCRAM_SHA_256: 4096}, listed)
        with pytest.raises(AbortableError) as gone:
            await admin.users.delete(name)
        assert gone.value.code is ErrorCode.RESOURCE_NOT_FOUND

    run(kafka, scenario)


def test_a_user_that_was_made_here_logs_in_and_may_do_what_the_rules_say(kafka: Guarded, name: str) -> None:
    async def scenario(admin: Admin) -> None:
        settings = {
            "bootstrap_servers": kafka.guarded_servers,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_username": name,
            "sasl_password": "sésame, ouvre-toi",
        }
        with pytest.raises(AuthorizationFailed):
            async with Admin(**settings) as stranger:
                await stranger.topics.list()
        await admin.users.upsert(name, "sésame, ouvre-toi")
        await admin.topics.create(f"{name}-mine")
        await admin.topics.create(f"{name}-theirs")
        mine = AclBinding(AclResourceType.TOPIC, f"{name}-mine", f"User:{name}", AclOperation.DESCRIBE)
        (await admin.acls.create([mine])).all()
        await becomes((mine,), lambda: admin.acls.describe(AclFilter(principal=f"User:{name}")))

        async with Admin(**settings) as user:
            assert list(await user.topics.list()) == [f"{name}-mine"]
            results = await user.topics.describe_many([f"{name}-mine", f"{name}-theirs"])
            assert list(results.succeeded) == [f"{name}-mine"]
            assert results.failed[f"{name}-theirs"].code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
            with pytest.raises(AbortableError) as refused:
                await user.topics.create(f"{name}-new")
            assert refused.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
            with pytest.raises(AbortableError) as not_allowed:
                await user.acls.describe()
            assert not_allowed.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            # Refused is not dismissed: the client goes on.
            assert (await user.topics.describe(f"{name}-mine")).name == f"{name}-mine"

    run(kafka, scenario)
