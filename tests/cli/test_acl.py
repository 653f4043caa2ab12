"""``semel acl`` on a real broker with an authorizer."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from semel.broker.config.authorization_config import STANDARD_AUTHORIZER
from semel.cli.commands.acl import OPERATIONS
from semel.cli.exits import Exit
from semel.testing import Broker
from semel.wire.codes import AclOperation
from tests.cli.conftest import Run


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(authorizer_class_name=STANDARD_AUTHORIZER, super_users="User:ANONYMOUS") as running:
        yield running


def rules(text: str) -> list[str]:
    rows = json.loads(text)
    return [" ".join((row["permission"], row["principal"], row["operation"], row["name"])) for row in rows]


def test_rules_are_added_listed_and_removed(run: Run) -> None:
    added = run("acl", "add", "--allow", "User:alice", "--operation", "read", "--topic", "orders", "--json")
    assert json.loads(added) == [
        {
            "permission": "allow",
            "principal": "User:alice",
            "operation": "read",
            "resource": "topic",
            "name": "orders",
            "pattern": "literal",
            "host": "*",
        }
    ]
    run("acl", "add", "--deny", "User:mallory", "--operation", "all", "--topic", "ord", "--prefixed", "--host", "::1")
    run("acl", "add", "--allow", "User:ops", "--operation", "describe-configs", "--operation", "alter", "--cluster")
    run("acl", "add", "--allow", "User:alice", "--operation", "read", "--topic", "orders")

    assert rules(run("acl", "list", "--json")) == [
        "allow User:alice read orders",
        "deny User:mallory all ord",
        "allow User:ops alter kafka-cluster",
        "allow User:ops describe-configs kafka-cluster",
    ]
    assert rules(run("acl", "list", "--topic", "orders", "--json")) == [
        "allow User:alice read orders",
        "deny User:mallory all ord",
    ]
    assert rules(run("acl", "list", "--topic", "ord", "--prefixed", "--json")) == ["deny User:mallory all ord"]
    assert rules(run("acl", "list", "--principal", "User:ops", "--operation", "alter", "--json")) == [
        "allow User:ops alter kafka-cluster"
    ]
    assert "User:mallory" in run("acl", "list")

    removed = run("acl", "remove", "--topic", "orders", "--json")
    assert rules(removed) == ["allow User:alice read orders"], "not the rule for a prefix, although it holds for orders"
    run("acl", "remove", "--principal", "User:ops")
    assert rules(run("acl", "list", "--json")) == ["deny User:mallory all ord"]


def test_nothing_to_remove_is_not_found(run: Run) -> None:
    assert "no rule matches" in run("acl", "remove", "--topic", "orders", exit_code=Exit.NOT_FOUND)
    assert run("acl", "list") == "no rules\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("remove",), "name a resource, or --principal"),
        (("remove", "--operation", "read"), "name a resource, or --principal"),
        (("add", "--operation", "read", "--topic", "orders"), "no principal"),
        (("add", "--allow", "alice", "--operation", "read", "--topic", "orders"), "'alice' is no principal"),
        (("add", "--allow", "User:alice", "--operation", "read"), "required"),
        (("add", "--allow", "User:alice", "--operation", "reed", "--topic", "orders"), "invalid choice"),
        (("list", "--prefixed"), "--prefixed says how a name is meant"),
    ],
)
def test_wrong_usage_changes_nothing(run: Run, arguments: tuple[str, ...], message: str) -> None:
    run("acl", "add", "--allow", "User:alice", "--operation", "read", "--topic", "orders")
    assert message in run("acl", *arguments, exit_code=Exit.USAGE)
    assert rules(run("acl", "list", "--json")) == ["allow User:alice read orders"]


def test_every_operation_has_its_word() -> None:
    assert {word.upper().replace("-", "_") for word in OPERATIONS} == {
        operation.name for operation in AclOperation if operation > AclOperation.ANY
    }


def test_a_broker_without_an_authorizer_is_said_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker() as plain:
        said = Run(plain.bootstrap_servers, capsys, monkeypatch)("acl", "list", exit_code=Exit.FAILED)
    disabled = "SECURITY_DISABLED: DescribeAcls of the rules that match anything"
    assert said == f"semel: {disabled}: No Authorizer is configured on the broker\n"
