"""ACLs and quotas in a cluster of several brokers: a change on one of them is known to all."""

from __future__ import annotations

import asyncio

from semel import Admin
from semel.admin import AclBinding, AclFilter, AclOperation, AclResourceType, QuotaEntity
from semel.broker.config.authorization_config import STANDARD_AUTHORIZER
from semel.testing.simulation import Simulation, run
from tests.simulation.served_cluster import PORT, ServedCluster


def admin_of(simulation: Simulation, node_id: int) -> Admin:
    host = simulation.host("clients")
    return Admin(
        bootstrap_servers=f"broker-{node_id}:{PORT}",
        network=host.network,
        clock=host.clock,
        random=simulation.random(f"admin {node_id}"),
    )


async def acls_changed_on_several_brokers(simulation: Simulation) -> None:
    cluster = ServedCluster(simulation, authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:ANONYMOUS")
    await cluster.start()
    admins = [admin_of(simulation, node_id) for node_id in cluster.brokers]
    rules = [AclBinding(AclResourceType.TOPIC, "orders", f"User:{number}", AclOperation.READ) for number in range(30)]
    # All for one pattern, by three brokers at once: none overwrites what another one has written.
    await asyncio.gather(*(admin.acls.create(rules[first::3]) for first, admin in enumerate(admins) for _ in range(2)))
    await asyncio.sleep(1)
    for admin in admins:
        assert set(await admin.acls.describe()) == set(rules)
    deleted = await asyncio.gather(
        *(admin.acls.delete([AclFilter(principal=f"User:{number}")]) for number, admin in enumerate(admins))
    )
    assert [sum(map(len, results.all().values())) for results in deleted] == [1, 1, 1]
    await asyncio.sleep(1)
    for member in cluster.brokers.values():
        security = member.broker.node.image.security
        assert security is not None
        assert set(security.acls.bindings()) == set(rules[3:])
        authorizer = member.broker.node.authorizer
        assert authorizer is not None
        asked = ("10.0.0.1", AclOperation.READ, AclResourceType.TOPIC, "orders")
        assert [authorizer.allows(f"User:{number}", *asked) for number in (0, 2, 3, 29)] == [False, False, True, True]
    for admin in admins:
        await admin.close()


def test_acls_changed_on_several_brokers_are_known_to_all() -> None:
    run(acls_changed_on_several_brokers, seed=1)


async def quota_set_on_one_broker(simulation: Simulation) -> list[bool]:
    """Whether a client is muted by each of the brokers: before, with, and after a quota that one of them was given."""
    cluster = ServedCluster(simulation)
    await cluster.start()
    admin = admin_of(simulation, 1)
    client, muted = QuotaEntity(client_id="simulated"), []
    changes: list[dict[QuotaEntity, dict[str, float | None]]] = [
        {},
        {client: {"request_percentage": 0.5}},
        {client: {"request_percentage": None}},
    ]
    for change in changes:
        (await admin.quotas.alter(change)).all()
        await asyncio.sleep(1)
        for member in cluster.brokers.values():
            quotas = member.broker.node.quotas
            muted.append(quotas is not None and quotas.limits("User:ANONYMOUS", "simulated") is not None)
    await admin.close()
    return muted


def test_a_quota_holds_on_every_broker() -> None:
    assert run(quota_set_on_one_broker) == [False] * 3 + [True] * 3 + [False] * 3
