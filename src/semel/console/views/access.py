"""The page of users with SCRAM credentials, and of ACLs. The brokers' answers contain no secrets."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from semel.console.pages import Page, Visit
from semel.console.paging import matches, sliced
from semel.errors import ErrorCode, KafkaError

T = TypeVar("T")


def access(visit: Visit) -> Page:
    connection = visit.connection
    users, no_users = _told(lambda: connection.answers.get("users", 5.0, connection.admin.users.list))
    rules, no_rules = _told(lambda: connection.answers.get("acls", 5.0, connection.admin.acls.describe))
    listed = [rule for rule in rules or () if matches(visit, rule.principal, rule.resource_name, rule.operation.name)]
    listed.sort(key=lambda rule: (rule.principal, rule.resource_type, rule.resource_name, rule.operation))
    values = {
        "users": sliced(visit, "access", sorted((users or {}).items()), parameter="users"),
        "no_users": no_users,
        "part": sliced(visit, "access", listed),
        "rule_count": len(rules or ()),
        "no_rules": no_rules,
        "query": visit.query.get("q", ""),
    }
    return Page("access.html", "Access", "access", values, live_every_s=5.0)


def _told(ask: Callable[[], T]) -> tuple[T | None, str | None]:
    """Return the result of ``ask``, or the reason why there is none."""
    try:
        return ask(), None
    except KafkaError as error:
        match error.code:
            case ErrorCode.SECURITY_DISABLED:
                return None, "This cluster has no authorizer: every client may do everything."
            case ErrorCode.UNSUPPORTED_VERSION:
                return None, "This broker does not know the request."
            case ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
                return None, "This user may not see it: it takes DESCRIBE on the cluster."
            case _:
                return None, str(error)
