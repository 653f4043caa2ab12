"""Several brokers, and brokers with users and rules: what the pages say of replicas, leaders and rights."""

from __future__ import annotations

import re

from semel import blocking
from semel.admin import AclBinding, AclOperation, AclResourceType
from semel.testing import Broker, Cluster
from tests.console.test_pages import table_rows
from tests.console.visitor import Visitor, running_console
from tools.patience import wait_until


def test_a_broker_that_died_is_away_and_its_replicas_are_behind() -> None:
    with Cluster(brokers=3) as cluster:
        servers = {"bootstrap_servers": cluster.bootstrap_servers}
        with blocking.Admin(**servers) as admin:
            admin.topics.create("orders", partitions=6, replication_factor=3)
        wait_until(lambda: None not in [cluster.leader("orders", index) for index in range(6)])
        with running_console(servers) as port:
            visitor = Visitor(port)
            wait_until(lambda: "every replica is in sync" in visitor.get("/cluster").text)
            assert "Brokers 3 controller" in visitor.get("/").text
            assert "lack in-sync replicas" not in visitor.get("/").text
            # Together they lead the six, and each has a replica of all.
            rows = [row.split(" – ") for row in table_rows(visitor.get("/cluster").body)]  # noqa: RUF001
            assert [row[0].split()[0] for row in rows] == ["1", "2", "3"]
            assert [row[1].split()[1:3] for row in rows] == [["6", "6"]] * 3
            assert sum(int(row[1].split()[0]) for row in rows) == 6

            cluster.brokers[3].stop(kill=True)
            wait_until(lambda: "partitions lack in-sync replicas" in visitor.get("/").text)
            wait_until(lambda: "away" in visitor.get("/cluster").text)
            page = visitor.get("/cluster")
            assert "orders:0" in page.text
            assert "3 behind" in page.text
            wait_until(lambda: "3 behind" in visitor.get("/topic", name="orders").text)
            # Nothing lacks a leader: the others have taken over.
            wait_until(lambda: "have no leader" not in visitor.get("/").text)

            cluster.brokers[3].start()
            wait_until(lambda: "every replica is in sync" in visitor.get("/cluster").text)


def test_users_and_rules_are_told_to_those_that_may_see_them() -> None:
    rules = [
        AclBinding(AclResourceType.TOPIC, "orders", "User:alice", AclOperation.READ),
        AclBinding(AclResourceType.GROUP, "bill<ing>", "User:alice", AclOperation.DESCRIBE, host="10.0.0.1"),
    ]
    with Broker(users={"admin": "boss", "alice": "wonder"}, acls=rules, super_users="User:admin") as broker:
        settings = {"bootstrap_servers": broker.bootstrap_servers, **broker.client_security}
        shown = {}
        for user, password in (("admin", "boss"), ("alice", "wonder")):
            own = {**settings, "sasl_username": user, "sasl_password": password}
            with running_console(own) as port:
                shown[user] = Visitor(port).get("/access")
    assert re.search(r"alice SCRAM-SHA-256 [\d ]+ iterations SCRAM-SHA-512", shown["admin"].text)
    assert "User:alice allow read topic orders anywhere" in shown["admin"].text
    assert "User:alice allow describe group bill<ing> 10.0.0.1" in shown["admin"].text
    assert "<ing>" not in shown["admin"].body
    assert "boss" not in shown["admin"].body
    assert "wonder" not in shown["admin"].body
    assert shown["alice"].text.count("This user may not see it: it takes DESCRIBE on the cluster.") == 2
    assert "User:alice" not in shown["alice"].text
