"""Between brokers: what comes to their listener needs CLUSTER_ACTION, whatever it is and whoever it claims to be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from semel import blocking
from semel.broker.cluster.connection_names import ConnectionName
from semel.broker.config.authorization_config import STANDARD_AUTHORIZER
from semel.errors import ErrorCode
from semel.metadata.controller import MetadataDecision
from semel.metadata.image import ClusterImage
from semel.metadata.security.image import AclsAltered
from semel.security.acls import CLUSTER_NAME, AclRule, ResourcePattern
from semel.testing import Cluster
from semel.wire.apis import APIS, ApiKey
from semel.wire.codes import AclOperation, AclPatternType, AclPermission, AclResourceType
from semel.wire.framing import encode_request
from semel.wire.messages.api_versions import ApiVersionsRequest
from semel.wire.messages.fetch import FetchRequest
from semel.wire.messages.list_transactions import ListTransactionsRequest
from semel.wire.messages.write_txn_markers import WriteTxnMarkersRequest
from tests.broker.raw_client import RawClient
from tools.patience import wait_until

REFUSED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2, authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:root") as running:
        yield running


def allow_anonymous(cluster: Cluster, operation: AclOperation, kind: AclResourceType, name: str = "*") -> None:
    """Commit a rule by the first broker, and wait for all to have it."""
    pattern = ResourcePattern(kind, AclPatternType.LITERAL, name)
    rule = AclRule("User:ANONYMOUS", "*", operation, AclPermission.ALLOW)

    def decide(image: ClusterImage) -> MetadataDecision[None]:
        return MetadataDecision((AclsAltered(pattern, frozenset({rule})),), ())

    nodes = [broker.served.node for broker in cluster.brokers.values()]

    async def change() -> None:
        await nodes[0].cluster.change(decide)

    cluster._thread.call(change())
    asked = ("User:ANONYMOUS", "127.0.0.1", AclOperation.CLUSTER_ACTION, kind, CLUSTER_NAME)
    wait_until(
        lambda: all(node.authorizer is not None and node.authorizer.allows(*asked) for node in nodes),
        "all brokers have the rule",
    )


class AsBroker(RawClient):
    """A client of the brokers' listener that claims to be one of them."""

    def __init__(self, cluster: Cluster, *, broker_epoch: int = 1) -> None:
        self.name = ConnectionName(9, "test", broker_epoch, 1)
        broker = cluster.brokers[1].served.broker
        assert broker is not None
        assert broker.endpoints.inter_broker_address is not None
        super().__init__(broker.endpoints.inter_broker_address.port)

    def call(self, key: ApiKey, version: int, message: object) -> Any:
        self.socket.sendall(encode_request(7, APIS[key], version, message, client_id=str(self.name)))
        return self.receive(key, version, 7)


def test_a_client_without_cluster_action_is_no_broker(cluster: Cluster) -> None:
    with AsBroker(cluster) as stranger:
        assert stranger.call(ApiKey.API_VERSIONS, 0, ApiVersionsRequest()).error_code == 0
        assert stranger.call(ApiKey.FETCH, 12, FetchRequest(replica_id=2)).error_code == REFUSED
        listed = stranger.call(ApiKey.LIST_TRANSACTIONS, 0, ListTransactionsRequest())
        assert (listed.error_code, listed.transaction_states) == (REFUSED, [])
    with AsBroker(cluster) as stranger, pytest.raises(ConnectionError):
        stranger.call(ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest())  # It has no code for all of it.


def test_a_client_without_cluster_action_does_not_take_the_place_of_a_brokers_connection(cluster: Cluster) -> None:
    """Otherwise any user could end the copying of every broker, and no later connection of theirs would be served."""
    with AsBroker(cluster, broker_epoch=2**40) as stranger:
        listed = stranger.call(ApiKey.LIST_TRANSACTIONS, 0, ListTransactionsRequest())
        assert listed.error_code == REFUSED
        allow_anonymous(cluster, AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER)
        with AsBroker(cluster) as broker:
            assert broker.call(ApiKey.LIST_TRANSACTIONS, 0, ListTransactionsRequest()).error_code == 0


def test_brokers_with_cluster_action_replicate(cluster: Cluster) -> None:
    """Their listener proves nothing here, so all of them are User:ANONYMOUS, and so are the clients."""
    for kind in (AclResourceType.TOPIC, AclResourceType.TRANSACTIONAL_ID, AclResourceType.CLUSTER):
        allow_anonymous(cluster, AclOperation.ALL, kind)
    with AsBroker(cluster) as broker:
        assert broker.call(ApiKey.LIST_TRANSACTIONS, 0, ListTransactionsRequest()).error_code == 0
        assert broker.call(ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest()).markers == []
    with blocking.Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        admin.topics.create("t", partitions=4, replication_factor=2)
    servers = cluster.bootstrap_servers
    with blocking.Producer(bootstrap_servers=servers, transactional_id="x") as producer, producer.transaction():
        for partition in range(4):
            producer.send("t", b"value", partition=partition)
    assert len(cluster.committed("t")) == 4
