"""A broker with an authorizer, and clients whose principals a test chooses: no login comes between."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from semel.broker.config.authorization_config import STANDARD_AUTHORIZER
from semel.broker.node import Node
from semel.metadata.controller import MetadataDecision
from semel.metadata.image import ClusterImage
from semel.metadata.security.image import AclsAltered, security_of
from semel.security.acls import ANY_HOST, CLUSTER_NAME, AclRule, ResourcePattern
from semel.testing import Broker
from semel.wire.apis import ApiKey
from semel.wire.codes import AclOperation, AclPatternType, AclPermission, AclResourceType
from semel.wire.messages.api_versions import ApiVersionsRequest
from tests.broker.raw_client import RawClient

ROOT = "User:root"
ALICE = "User:alice"
BOB = "User:bob"


class SecuredBroker:
    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self._clients: list[RawClient] = []

    def client(self, principal: str = ALICE) -> RawClient:
        """A connection that belongs to ``principal``."""
        client = RawClient(self.broker.port)
        self._clients.append(client)
        client.call(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())  # From here on the broker knows the connection.
        host, port = client.socket.getsockname()

        async def log_in() -> None:
            broker = self.broker._broker
            assert broker is not None
            assert broker._running is not None
            (connection,) = (one for one in broker._running.server.connections if one.peer == f"{host}:{port}")
            connection.principal = principal

        self.broker._call(log_in())
        return client

    @property
    def node(self) -> Node:
        assert self.broker._broker is not None
        return self.broker._broker.node

    def allow(
        self, operation: AclOperation, kind: AclResourceType, name: str = CLUSTER_NAME, **options: object
    ) -> None:
        """Add a rule: for alice, from everywhere, with this one name, unless ``options`` say otherwise."""
        given: dict[str, object] = {"principal": ALICE, "host": ANY_HOST, "permission": AclPermission.ALLOW} | options
        pattern_type = given.pop("pattern_type", AclPatternType.LITERAL)
        assert isinstance(pattern_type, AclPatternType)
        pattern = ResourcePattern(kind, pattern_type, name)
        rule = AclRule(operation=operation, **given)  # type: ignore[arg-type]
        self.set_rules(pattern, security_of(self.node.image).acls.rules(pattern) | {rule})

    def deny(self, operation: AclOperation, kind: AclResourceType, name: str = CLUSTER_NAME, **options: object) -> None:
        self.allow(operation, kind, name, permission=AclPermission.DENY, **options)

    def set_rules(self, pattern: ResourcePattern, rules: frozenset[AclRule]) -> None:
        def decide(image: ClusterImage) -> MetadataDecision[None]:
            return MetadataDecision((AclsAltered(pattern, rules),), ())

        async def change() -> None:
            await self.node.cluster.change(decide)

        self.broker._call(change())

    def forget_rules(self) -> None:
        for pattern, _ in list(security_of(self.node.image).acls.items()):
            self.set_rules(pattern, frozenset())

    def close_clients(self) -> None:
        while self._clients:
            self._clients.pop().__exit__()


@contextmanager
def secured_broker(**settings: object) -> Iterator[SecuredBroker]:
    with Broker(authorizer_class_name=STANDARD_AUTHORIZER, super_users=ROOT, **settings) as broker:
        secured = SecuredBroker(broker)
        try:
            yield secured
        finally:
            secured.close_clients()
