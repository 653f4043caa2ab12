"""``semel config``: the settings of topics, brokers and groups."""

from __future__ import annotations

import argparse
from difflib import get_close_matches
from typing import TYPE_CHECKING

from semel.cli.exits import Exit, UsageError
from semel.cli.option_values import client_settings, key_and_value
from semel.cli.parsing import Subcommands, add_command, add_connection_and_json, add_family
from semel.cli.terminal.output import print_facts, print_rows
from semel.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from semel.client.admin.configs import ConfigResource


def add_parser(commands: Subcommands) -> None:
    family = add_family(
        commands,
        "config",
        "look at settings and change them",
        "  semel config describe --topic orders\n"
        "  semel config alter --topic orders --set retention.ms=3600000 --delete segment.ms\n"
        "  semel config describe --broker 1 --all",
    )
    describe = add_command(
        family,
        "describe",
        "show settings and where their values come from",
        "  semel config describe --topic orders\n  semel config describe --broker 1 --all",
        _describe,
    )
    describe.add_argument("--all", action="store_true", help="those with their default value, too")
    alter = add_command(
        family,
        "alter",
        "change single settings and leave the others alone",
        "  semel config alter --topic orders --set retention.ms=3600000\n"
        "  semel config alter --broker 1 --delete log.retention.ms",
        _alter,
    )
    alter.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="may be repeated")
    alter.add_argument("--delete", action="append", default=[], metavar="KEY", help="back to the default")
    for parser in (describe, alter):
        whose = parser.add_mutually_exclusive_group(required=True)
        whose.add_argument("--topic")
        whose.add_argument("--broker", type=int, metavar="ID")
        whose.add_argument("--all-brokers", action="store_true", help="what holds for every broker")
        whose.add_argument("--group")
        add_connection_and_json(parser)


def _resource(options: argparse.Namespace) -> ConfigResource:
    from semel.client.admin.configs import ConfigResource

    if options.topic is not None:
        return ConfigResource.topic(options.topic)
    if options.group is not None:
        return ConfigResource.group(options.group)
    return ConfigResource.all_brokers() if options.all_brokers else ConfigResource.broker(options.broker)


def _describe(options: argparse.Namespace) -> int:
    from semel.blocking import Admin

    with Admin(**client_settings(options)) as admin:
        entries = admin.configs.describe(_resource(options))
    rows = [
        {
            "name": entry.name,
            "value": "[hidden]" if entry.is_sensitive else entry.value,
            "source": entry.source.name.lower().replace("_", " "),
            "read_only": entry.is_read_only,
        }
        for _, entry in sorted(entries.items())
        if options.all or not entry.is_default
    ]
    print_rows(rows, ("name", "value", "source", "read_only"), as_json=options.json, empty="all at their defaults")
    return Exit.OK


def _alter(options: argparse.Namespace) -> int:
    from semel.blocking import Admin

    values: dict[str, str | None] = dict(key_and_value("--set", text) for text in options.set)
    values.update(dict.fromkeys(options.delete))
    if not values:
        raise UsageError("nothing to change: name settings with --set KEY=VALUE or --delete KEY")
    with Admin(**client_settings(options)) as admin:
        if options.delete:
            # A broker accepts the deletion of an unknown name, since a setting that is not set is at its default. So
            # the names are checked here.
            known = admin.configs.describe(_resource(options))
            for name in options.delete:
                if name not in known:
                    nearest = "".join(f"; did you mean {near}?" for near in get_close_matches(name, known, 1))
                    raise KafkaError(
                        ErrorCode.RESOURCE_NOT_FOUND, f"--delete {name}: no such setting is there{nearest}"
                    )
        admin.configs.alter(_resource(options), values)
    print_facts({"changed": sorted(values)}, as_json=options.json)
    return Exit.OK
