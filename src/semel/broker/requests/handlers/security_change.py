"""Changes ACLs, users or quotas in the metadata, with one commit or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from semel.broker.node import Node
from semel.metadata.controller import MetadataDecision, Refusal
from semel.metadata.image import ClusterImage
from semel.metadata.security.acl_changes import TOO_LARGE

Result = TypeVar("Result")


async def change_security(
    node: Node,
    decide: Callable[[ClusterImage], MetadataDecision[Result]],
    *,
    refused: Callable[[Refusal], Sequence[Result]],
    validate_only: bool = False,
) -> Sequence[Result]:
    """Make the changes that ``decide`` returns, and return its results.

    ``refused`` makes the results if nothing can be changed: the store failed, or the changes do not fit one commit.
    """

    def decide_one_commit(image: ClusterImage) -> MetadataDecision[Result]:
        decision = decide(image)
        if node.cluster.fits_one_commit(decision.changes):
            return decision
        return MetadataDecision((), tuple(refused(TOO_LARGE)))

    return await node.change(decide_one_commit, validate_only=validate_only, unstored=refused)
