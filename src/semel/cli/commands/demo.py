"""``semel demo``: kills the driver of a Spark job in the middle, and compares the job's totals with its input."""

from __future__ import annotations

import argparse

from semel.cli.exits import Exit, UsageError
from semel.cli.parsing import Subcommands, add_command


def add_parser(commands: Subcommands) -> None:
    add_command(
        commands,
        "demo",
        "kill a Spark job in the middle, with a plain sink and with this one, and compare the totals",
        "  semel demo\n\n"
        "Takes a few minutes, a broker of its own and a temporary folder; nothing else is touched. It needs Spark:\n"
        "pip install 'semel[spark]'. Exit code 5: the totals of semel.spark are not equal to the orders.",
        _run,
    )


def _run(options: argparse.Namespace) -> int:
    try:
        from semel.demo import demonstration
        from semel.spark.java import NoJava
    except ImportError as error:
        raise UsageError(f"the demo needs Spark, and {error.name} is not here: pip install 'semel[spark]'") from None
    try:
        return Exit.OK if demonstration.run() else Exit.FOUND
    except NoJava as error:
        raise UsageError(str(error)) from None
