"""What it costs to ask whether a client may do something: ``python -m benchmarks.acls``.

With as many ACLs as the table says: nine of ten are literal, one of ten has a prefix of 1 to 40 characters; a few are
for all topics, and deny. A decision that was made before is remembered while the ACLs stay as they are; the other
columns are decisions that are made again each time: about a topic, and whether there is one that a client may write to.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import groupby
from typing import Final

from benchmarks.processor_time import best_seconds
from semel.security.acl_table import AclTable
from semel.security.acls import AclBinding
from semel.security.authorizer import Authorizer
from semel.wire.codes import AclOperation, AclPatternType, AclPermission, AclResourceType

_COUNTS: Final = (0, 10, 1_000, 10_000, 100_000)
_HOST: Final = "10.0.0.1"
_NAMES: Final = 1_000


def main() -> None:
    print("| ACLs | us, remembered | us, decided | us, decided of some topic |")
    print("|--:|--:|--:|--:|")
    for count in _COUNTS:
        table = _table(count)
        assert len(table) == count
        authorizer = Authorizer()
        authorizer.load(table)
        allows = partial(authorizer.allows, "User:7", _HOST, AclOperation.WRITE, AclResourceType.TOPIC)
        names = [f"orders-{number}-of-a-topic-with-a-long-name" for number in range(_NAMES)]
        remembered_s = best_seconds(partial(_ask, allows, names)) / _NAMES
        verdict = partial(table.verdict, "User:7", _HOST, AclOperation.WRITE, AclResourceType.TOPIC)
        decided_s = best_seconds(partial(_ask, verdict, names)) / _NAMES
        some = partial(table.allows_some, host=_HOST, operation=AclOperation.WRITE, resource_type=AclResourceType.TOPIC)
        some_s = best_seconds(partial(_ask, some, ["User:7"] * _NAMES)) / _NAMES
        print(f"| {count:,} | {remembered_s * 1e6:.2f} | {decided_s * 1e6:.2f} | {some_s * 1e6:.2f} |")


def _ask(question: Callable[[str], object], names: list[str]) -> None:
    for name in names:
        question(name)


def _table(count: int) -> AclTable:
    bindings = sorted((_binding(number) for number in range(count)), key=lambda one: str(one.pattern))
    changes = {pattern: frozenset(one.rule for one in some) for pattern, some in groupby(bindings, lambda b: b.pattern)}
    return AclTable().altered(changes)


def _binding(number: int) -> AclBinding:
    user = f"User:{number % 500}"
    if number % 10 == 9:
        prefix = f"orders-{number}-of-a-topic-with-a-long-name"[: 1 + number // 10 % 40]
        return AclBinding(
            AclResourceType.TOPIC,
            prefix,
            f"User:{number}",
            AclOperation.WRITE,
            pattern_type=AclPatternType.PREFIXED,
        )
    if number % 1_000 == 7:
        return AclBinding(AclResourceType.TOPIC, "*", f"User:{number}", AclOperation.READ, AclPermission.DENY)
    return AclBinding(AclResourceType.TOPIC, f"orders-{number}-of-a-topic-with-a-long-name", user, AclOperation.WRITE)


if __name__ == "__main__":
    main()
