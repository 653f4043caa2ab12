"""The ``semel`` command: its subcommands and what they have in common.

An error is one sentence on standard error; a traceback is a bug. The exit codes are in ``exits.py``.

Importing is kept to a minimum, so that every command starts fast: only the module of the subcommand that is run is
imported, and that module imports what its command needs only when the command runs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Final

from semel import __version__
from semel.cli.exits import DESCRIPTION, Exit, UsageError
from semel.cli.terminal.interruption import Interrupted, raised_signals
from semel.errors import ErrorCode, KafkaError, SemelError, TimedOut

COMMANDS: Final = (
    "serve",
    "topic",
    "produce",
    "consume",
    "group",
    "txn",
    "producer",
    "config",
    "acl",
    "user",
    "cluster",
    "console",
    "log",
    "pipeline",
    "prove",
    "trace",
    "lab",
    "bench",
    "demo",
    "completion",
)
"""The subcommands, in the order of the help. Each is declared by the module of the same name in ``commands``."""

_NOT_FOUND = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.RESOURCE_NOT_FOUND,
    }
)


def main(arguments: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    try:
        with raised_signals():
            # Without a known command first, the words ask for help, or are a mistake: both need all commands.
            parser = make_parser(words[:1] if words and words[0] in COMMANDS else COMMANDS)
            options = parser.parse_args(words)
            code: int = options.run(options)
    except UsageError as error:
        print(f"semel: {error}", file=sys.stderr)
        raise SystemExit(Exit.USAGE) from None  # The parser raises it as well.
    except SemelError as error:
        print(f"semel: {error}", file=sys.stderr)
        return _code_of(error)
    except Interrupted as interrupted:
        return interrupted.exit_code
    except BrokenPipeError:
        # The reader of the output has closed it. Without this, Python would print an error when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FAILED
    return code


def make_parser(names: Iterable[str] = COMMANDS) -> argparse.ArgumentParser:
    """Return a parser for these commands."""
    parser = argparse.ArgumentParser(
        prog="semel", description="Exactly-once event streaming for Python and Spark.", epilog=DESCRIPTION
    )
    parser.add_argument("--version", action="version", version=f"semel {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name in names:
        import_module(f"semel.cli.commands.{name}").add_parser(commands)
    return parser


def _code_of(error: SemelError) -> Exit:
    if isinstance(error, TimedOut):
        return Exit.UNREACHABLE
    if isinstance(error, KafkaError) and error.code in _NOT_FOUND:
        return Exit.NOT_FOUND
    return Exit.FAILED
