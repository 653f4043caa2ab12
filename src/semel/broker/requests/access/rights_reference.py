"""Generates ``docs/security-rights.md``, the rights that each request needs, from the declarations.

Update it with ``python -m semel.broker.requests.access.rights_reference > docs/security-rights.md``; a test fails while
the file is out of date.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from semel.broker.requests.access.declarations import Access, Need
from semel.broker.requests.access.table import ACCESS
from semel.broker.requests.routes import SERVED
from semel.wire.apis import APIS, Api
from semel.wire.codes import AclResourceType

_OPENING: Final = """\
# Requests and the rights that they need

<!-- Written by `python -m semel.broker.requests.access.rights_reference`; edit the declarations, not this file. -->

Where an authorizer is configured, a request needs what stands here, as in Apache Kafka 4.3. The names of operations and
resources are those of ACLs. To be allowed READ, WRITE, DELETE or ALTER is to be allowed DESCRIBE, and to be allowed
ALTER_CONFIGS is to be allowed DESCRIBE_CONFIGS, unless a rule denies that.

A topic that is named by its id needs the right with its name; a client that may not describe it is not told the name.
What brokers ask each other comes to a listener of their own and needs CLUSTER_ACTION on CLUSTER, whatever it is.

| request | versions | right | without it |
|---|---|---|---|
"""


_OF: Final = {
    AclResourceType.TOPIC: "topic",
    AclResourceType.GROUP: "group",
    AclResourceType.TRANSACTIONAL_ID: "transactional id",
    AclResourceType.CLUSTER: "resource of the cluster",
}


def render() -> str:
    return _OPENING + "".join(row for key in SERVED for row in _rows(APIS[key], ACCESS[key]))


def _rows(api: Api, access: Access) -> Iterator[str]:
    """Yield one row for each right, with all versions that need it."""
    versions: dict[tuple[str, str], list[int]] = {}
    for version in range(api.min_version, api.max_version + 1):
        for row in list(_rights(access.in_version(version))) or [("none", "")]:
            versions.setdefault(row, []).append(version)
    for (right, without), (first, *others) in versions.items():
        needed = f"{first}-{others[-1]}" if others else str(first)
        yield f"| {api.name} | {needed} | {right} | {without} |\n"


def _rights(access: Access) -> Iterator[tuple[str, str]]:
    for need in access.whole:
        yield _needed(need), f"the request is refused: {need.right.refusal.name}"
    for need in () if access.items is None else access.items.needs:
        what = _OF[need.right.resource_type]
        yield _needed(need), f"the {what} is refused, the rest is served: {need.right.refusal.name}"
    for decided in access.checked_by_handler:
        yield str(decided.right), decided.without


def _needed(need: Need) -> str:
    others = [str(need.instead)] if need.instead is not None else []
    if need.some is not None:
        others.append(f"{need.some} with any name")
    return " or ".join([str(need.right), *others])


if __name__ == "__main__":
    print(render(), end="")
