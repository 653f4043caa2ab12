"""A coordinator that is gone is looked for again, also when nobody was asking it at the time."""

from __future__ import annotations

from semel.wire.apis import ApiKey
from tests.unit.client.machine.model_cluster import ModelCluster
from tests.unit.client.machine.producer.producers import producing


def test_a_producer_whose_coordinator_died_while_it_was_idle_finds_the_next_one() -> None:
    cluster = ModelCluster(nodes=2, topics={"orders": 2})
    cluster.coordinator_id = 2
    producer = producing(cluster, transactional_id="billing")
    transaction = producer.machine.transaction
    assert transaction is not None
    transaction.init()
    producer.advance(100)
    for connection, node_id in tuple(producer.bench.connections.items()):
        if node_id == 2:
            producer.bench.drop_connection(connection)
    producer.bench.refusing.add(2)
    cluster.coordinator_id = 1
    transaction.begin()
    producer.send(b"a", partition=0)
    transaction.commit()
    producer.advance(3_000)
    assert cluster.transactions.outcomes == [True]
    assert [request.node_id for request in producer.bench.requests(ApiKey.END_TXN)] == [1]
