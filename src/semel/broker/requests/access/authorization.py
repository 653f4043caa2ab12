"""Sets up the authorizer of a broker. It uses the ACLs of the image; a change holds from the next request on."""

from __future__ import annotations

from collections.abc import Sequence

from semel.broker.node import Node
from semel.broker.requests.access import table
from semel.metadata.image import Change, ClusterImage
from semel.metadata.security.image import AclsAltered
from semel.security.authorizer import Authorizer

_LOADED = table.ACCESS  # Imports all messages of the table at the start: the first request should not wait for it.


def authorize(node: Node) -> None:
    """Give the node an authorizer with its settings, which follows the ACLs of the cluster's image."""
    config = node.config
    authorizer = Authorizer(
        super_users=config.super_users, allow_everyone_if_no_acl_found=config.allow_everyone_if_no_acl_found
    )

    def changed(before: ClusterImage, after: ClusterImage, changes: Sequence[Change]) -> None:
        if after.security is not None and any(isinstance(change, AclsAltered) for change in changes):
            authorizer.load(after.security.acls)

    if node.image.security is not None:
        authorizer.load(node.image.security.acls)
    node.cluster.watch(changed)
    node.authorizer = authorizer
