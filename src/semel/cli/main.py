"""The ``semel`` command: its subcommands and what they have in common.

Exit codes: 0 it went well, 1 it failed while running, 2 it was asked for something that does not exist. An error is one
sentence on standard error; a traceback is a bug.

A subcommand's module is imported when it runs, so that none pays for the others.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from semel import __version__
from semel.cli import serve
from semel.errors import SemelError


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="semel",
        description="Exactly-once event streaming for Python and Spark.",
        epilog="exit codes: 0 ok, 1 failure at run time, 2 wrong usage",
    )
    parser.add_argument("--version", action="version", version=f"semel {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    serve.add_parser(commands)
    options = parser.parse_args(arguments)
    try:
        code: int = options.run(options)
    except SemelError as error:
        print(f"semel: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 1
    return code
