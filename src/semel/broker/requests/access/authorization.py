"""A broker that decides by ACLs: they are those of the image, and a change holds from the next request on."""

from __future__ import annotations

from collections.abc import Sequence

from semel.broker.node import Node
from semel.broker.requests.access import table
from semel.metadata.image import Change, ClusterImage
from semel.metadata.security_image import AclsAltered
from semel.security.authorizer import Authorizer

_LOADED = table.ACCESS  # With all messages that it names: not with the first request, which would wait for it.


def authorize(node: Node) -> None:
    """Give the node the authorizer that its settings ask for."""
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
