"""Rights: pairs of an operation and a resource type, and the checks whether a client has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from semel.errors import ErrorCode
from semel.security.acls import CLUSTER_NAME
from semel.wire.codes import AclOperation as Op
from semel.wire.codes import AclResourceType as Of

if TYPE_CHECKING:
    from semel.security.authorizer import Authorizer

_REFUSALS: Final = {
    Of.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    Of.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    Of.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    Of.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class Right(NamedTuple):
    operation: Op
    resource_type: Of

    def __str__(self) -> str:
        return f"{self.operation.name} on {self.resource_type.name}"

    @property
    def refusal(self) -> ErrorCode:
        """The error code for a client that lacks this right."""
        return _REFUSALS[self.resource_type]


READ_TOPIC: Final = Right(Op.READ, Of.TOPIC)
WRITE_TOPIC: Final = Right(Op.WRITE, Of.TOPIC)
CREATE_TOPIC: Final = Right(Op.CREATE, Of.TOPIC)
DELETE_TOPIC: Final = Right(Op.DELETE, Of.TOPIC)
ALTER_TOPIC: Final = Right(Op.ALTER, Of.TOPIC)
DESCRIBE_TOPIC: Final = Right(Op.DESCRIBE, Of.TOPIC)
DESCRIBE_CONFIGS_TOPIC: Final = Right(Op.DESCRIBE_CONFIGS, Of.TOPIC)
ALTER_CONFIGS_TOPIC: Final = Right(Op.ALTER_CONFIGS, Of.TOPIC)

READ_GROUP: Final = Right(Op.READ, Of.GROUP)
DELETE_GROUP: Final = Right(Op.DELETE, Of.GROUP)
DESCRIBE_GROUP: Final = Right(Op.DESCRIBE, Of.GROUP)
DESCRIBE_CONFIGS_GROUP: Final = Right(Op.DESCRIBE_CONFIGS, Of.GROUP)
ALTER_CONFIGS_GROUP: Final = Right(Op.ALTER_CONFIGS, Of.GROUP)

WRITE_TRANSACTIONAL_ID: Final = Right(Op.WRITE, Of.TRANSACTIONAL_ID)
DESCRIBE_TRANSACTIONAL_ID: Final = Right(Op.DESCRIBE, Of.TRANSACTIONAL_ID)

CREATE_CLUSTER: Final = Right(Op.CREATE, Of.CLUSTER)
DELETE_CLUSTER: Final = Right(Op.DELETE, Of.CLUSTER)
ALTER_CLUSTER: Final = Right(Op.ALTER, Of.CLUSTER)
DESCRIBE_CLUSTER: Final = Right(Op.DESCRIBE, Of.CLUSTER)
CLUSTER_ACTION: Final = Right(Op.CLUSTER_ACTION, Of.CLUSTER)
DESCRIBE_CONFIGS_CLUSTER: Final = Right(Op.DESCRIBE_CONFIGS, Of.CLUSTER)
ALTER_CONFIGS_CLUSTER: Final = Right(Op.ALTER_CONFIGS, Of.CLUSTER)
IDEMPOTENT_WRITE: Final = Right(Op.IDEMPOTENT_WRITE, Of.CLUSTER)


class Rights:
    """The rights of the client that sent one request.

    ``refused`` is called when a request or a part of it is refused, but not for names that are left out of a response.
    ``name`` is the name of a resource; for the cluster it can be left out.
    """

    __slots__ = ("_authorizer", "_host", "_principal", "_refused")

    def __init__(
        self, authorizer: Authorizer, principal: str, host: str, refused: Callable[[Op, Of, str], None] | None
    ) -> None:
        self._authorizer = authorizer
        self._principal = principal
        self._host = host
        self._refused = refused

    def may(self, right: Right, name: str = CLUSTER_NAME) -> bool:
        return self._authorizer.allows(self._principal, self._host, *right, name)

    def may_with_some(self, right: Right) -> bool:
        """Whether the client may have this right on some resource (``AclTable.allows_some``)."""
        return self._authorizer.allows_some(self._principal, self._host, *right)

    def demand(self, right: Right, name: str = CLUSTER_NAME) -> bool:
        """Whether the client has this right. If not, ``refused`` is called, and the caller must refuse the request."""
        allowed = self.may(right, name)
        if not allowed:
            self.refuse(right, name)
        return allowed

    def refuse(self, right: Right, name: str = CLUSTER_NAME) -> None:
        if self._refused is not None:
            self._refused(*right, name)
