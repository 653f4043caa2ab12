"""``semel acl``: lists, adds and removes ACLs, the rules of who may do what with which resource."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from semel.cli.exits import Exit, UsageError
from semel.cli.option_values import client_settings
from semel.cli.parsing import Subcommands, add_command, add_connection_and_json, add_family
from semel.cli.terminal.output import print_rows

if TYPE_CHECKING:
    from semel.security.acls import AclBinding, AclFilter
    from semel.wire.codes import AclOperation, AclPatternType, AclPermission, AclResourceType

COLUMNS: Final = ("permission", "principal", "operation", "resource", "name", "pattern", "host")
OPERATIONS: Final = (
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster-action",
    "describe-configs",
    "alter-configs",
    "idempotent-write",
    "create-tokens",
    "describe-tokens",
    "two-phase-commit",
)
_CLUSTER_NAME: Final = "kafka-cluster"
_RESOURCES: Final = {
    "topic": "one topic; '*' is every topic",
    "group": "one consumer group; '*' is every group",
    "transactional_id": "one transactional id; '*' is every id",
    "user": "one user, in rules about delegation tokens",
}


def add_parser(commands: Subcommands) -> None:
    family = add_family(
        commands,
        "acl",
        "look at the rules of who may do what, and change them",
        "  semel acl add --allow User:alice --operation read --topic orders\n"
        "  semel acl list --topic orders\n"
        "  semel acl remove --principal User:alice",
    )
    listing = add_command(
        family,
        "list",
        "list rules: all, or those that hold for a resource or a principal",
        "  semel acl list\n"
        "  semel acl list --topic orders              # rules for prefixes and for '*' that hold for it, too\n"
        "  semel acl list --topic ord --prefixed      # only those for the names that begin with ord\n"
        "  semel acl list --principal User:alice --json",
        _list,
    )
    add = add_command(
        family,
        "add",
        "add rules; one that is there already is no error",
        "  semel acl add --allow User:alice --operation read --topic orders\n"
        "  semel acl add --allow User:alice --allow User:bob --operation read --topic ord --prefixed\n"
        "  semel acl add --deny User:mallory --operation all --topic '*' --host 10.0.0.7\n"
        "  semel acl add --allow User:ops --operation alter --cluster",
        _add,
    )
    add.add_argument("--allow", action="append", default=[], metavar="PRINCIPAL", help="User:NAME; may be repeated")
    add.add_argument("--deny", action="append", default=[], metavar="PRINCIPAL", help="wins over what is allowed")
    add.add_argument(
        "--operation", action="append", required=True, choices=OPERATIONS, metavar="OPERATION", help="may be repeated"
    )
    add.add_argument("--host", default="*", metavar="ADDRESS", help="where the client is (default: anywhere)")
    remove = add_command(
        family,
        "remove",
        "remove the rules that match everything that is said",
        "  semel acl remove --topic orders --principal User:alice --operation write\n"
        "  semel acl remove --topic ord --prefixed\n"
        "  semel acl remove --principal User:alice",
        _remove,
    )
    for parser in (listing, remove):
        parser.add_argument("--principal", metavar="PRINCIPAL", help="User:NAME")
        parser.add_argument(
            "--operation", choices=OPERATIONS, metavar="OPERATION", help="one of those of semel acl add"
        )
        parser.add_argument("--host", metavar="ADDRESS", help="as it stands in the rule")
    for parser in (listing, add, remove):
        which = parser.add_mutually_exclusive_group(required=parser is add)
        for resource, text in _RESOURCES.items():
            which.add_argument(f"--{resource.replace('_', '-')}", metavar="NAME", help=text)
        which.add_argument("--cluster", action="store_true", help="the cluster itself")
        parser.add_argument("--prefixed", action="store_true", help="every name that begins with NAME")
    add_connection_and_json(listing, add, remove)


def _list(options: argparse.Namespace) -> int:
    from semel.blocking import Admin

    # Without --prefixed, list every rule that applies to this name: literal, prefixed or '*'.
    matching = _filter(options, exact=options.prefixed)
    with Admin(**client_settings(options)) as admin:
        _print(admin.acls.describe(matching), as_json=options.json)
    return Exit.OK


def _add(options: argparse.Namespace) -> int:
    from semel.blocking import Admin
    from semel.security.acls import AclBinding
    from semel.wire.codes import AclPermission

    principals = [(AclPermission.ALLOW, name) for name in options.allow]
    principals += [(AclPermission.DENY, name) for name in options.deny]
    if not principals:
        raise UsageError("no principal: name one with --allow User:NAME or --deny User:NAME")
    for _, principal in principals:
        _check_principal(principal)
    resource_type, name = _resource(options)
    assert name is not None
    bindings = [
        AclBinding(resource_type, name, principal, _operation(operation), permission, options.host, _pattern(options))
        for permission, principal in principals
        for operation in options.operation
    ]
    with Admin(**client_settings(options)) as admin:
        admin.acls.create(bindings).all()
    _print(bindings, as_json=options.json)
    return Exit.OK


def _remove(options: argparse.Namespace) -> int:
    from semel.blocking import Admin
    from semel.errors import ErrorCode, KafkaError

    matching = _filter(options, exact=True)
    if matching.resource_name is None and matching.principal is None:
        raise UsageError("that would remove the rules of everyone: name a resource, or --principal")
    with Admin(**client_settings(options)) as admin:
        (removed,) = admin.acls.delete([matching]).all().values()
    if not removed:
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, "no rule matches")
    _print(removed, as_json=options.json)
    return Exit.OK


def _filter(options: argparse.Namespace, *, exact: bool) -> AclFilter:
    from semel.security.acls import AclFilter
    from semel.wire.codes import AclOperation, AclPatternType

    if options.principal is not None:
        _check_principal(options.principal)
    resource_type, name = _resource(options)
    if name is None:
        pattern_type = AclPatternType.ANY
    else:
        pattern_type = _pattern(options) if exact else AclPatternType.MATCH
    return AclFilter(
        resource_type,
        name,
        options.principal,
        AclOperation.ANY if options.operation is None else _operation(options.operation),
        host=options.host,
        pattern_type=pattern_type,
    )


def _resource(options: argparse.Namespace) -> tuple[AclResourceType, str | None]:
    from semel.wire.codes import AclResourceType

    if options.cluster:
        return AclResourceType.CLUSTER, _CLUSTER_NAME
    for resource in _RESOURCES:
        name: str | None = getattr(options, resource)
        if name is not None:
            return AclResourceType[resource.upper()], name
    if options.prefixed:
        raise UsageError("--prefixed says how a name is meant: give one, with --topic or another resource")
    return AclResourceType.ANY, None


def _pattern(options: argparse.Namespace) -> AclPatternType:
    from semel.wire.codes import AclPatternType

    return AclPatternType.PREFIXED if options.prefixed else AclPatternType.LITERAL


def _operation(text: str) -> AclOperation:
    from semel.wire.codes import AclOperation

    return AclOperation[_code(text)]


def _check_principal(text: str) -> None:
    from semel.security.principal import Principal

    try:
        Principal.parse(text)
    except ValueError as error:
        raise UsageError(str(error)) from None


def _print(bindings: Iterable[AclBinding], *, as_json: bool) -> None:
    rows: list[dict[str, Any]] = [
        {
            "permission": _word(binding.permission),
            "principal": binding.principal,
            "operation": _word(binding.operation),
            "resource": _word(binding.resource_type),
            "name": binding.resource_name,
            "pattern": _word(binding.pattern_type),
            "host": binding.host,
        }
        for binding in bindings
    ]
    print_rows(rows, COLUMNS, as_json=as_json, empty="no rules")


def _word(code: AclPermission | AclOperation | AclResourceType | AclPatternType) -> str:
    return code.name.lower().replace("_", "-")


def _code(word: str) -> str:
    return word.upper().replace("-", "_")
