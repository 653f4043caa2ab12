"""Declaration of commands: every command has examples, and commands that connect to brokers share options."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any, Final

DEFAULT_SERVERS: Final = "127.0.0.1:9092"
SERVERS_VARIABLE: Final = "SEMEL_BOOTSTRAP_SERVERS"
CONFIG_VARIABLE: Final = "SEMEL_COMMAND_CONFIG"

Subcommands = Any
"""The type of what ``add_subparsers`` returns, which is private in ``argparse``."""


def add_command(
    commands: Subcommands, name: str, summary: str, examples: str, run: Callable[[argparse.Namespace], int] | None
) -> argparse.ArgumentParser:
    """Add a command, with ``examples`` under its ``--help``. ``run`` is ``None`` for a family of commands."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if run is not None:
        parser.set_defaults(run=run)
    return parser


def add_family(commands: Subcommands, name: str, summary: str, examples: str) -> Subcommands:
    """Add a command that has subcommands, and return where these are added."""
    return add_command(commands, name, summary, examples, None).add_subparsers(metavar="COMMAND", required=True)


def add_connection_and_json(*parsers: argparse.ArgumentParser) -> None:
    """Add the connection options and ``--json``, for commands that print what brokers answer."""
    for parser in parsers:
        add_connection(parser)
        add_json(parser)


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Add the options for the brokers' addresses and the client's settings, with the names of Kafka's own tools."""
    group = parser.add_argument_group("connection")
    group.add_argument(
        "--bootstrap-server",
        metavar="HOST:PORT",
        default=os.environ.get(SERVERS_VARIABLE, DEFAULT_SERVERS),
        help=f"brokers to ask, with commas (default: ${SERVERS_VARIABLE}, else {DEFAULT_SERVERS})",
    )
    add_client_settings(group)


def add_client_settings(group: argparse._ActionsContainer) -> None:
    """Add the options for the client's settings."""
    group.add_argument(
        "--command-config",
        metavar="FILE",
        help=f"settings of the client, as a .properties file (default: ${CONFIG_VARIABLE}, else none)",
    )
    group.add_argument(
        "--command-property",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="one setting of the client; wins over the file; may be repeated; no place for passwords",
    )


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
