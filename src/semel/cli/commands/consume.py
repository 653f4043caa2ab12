"""``semel consume``: records of a topic, as a consumer sees them or as they are in the log."""

from __future__ import annotations

import argparse
from typing import Final

from semel.cli.exits import Exit, UsageError
from semel.cli.option_values import client_settings
from semel.cli.parsing import Subcommands, add_command, add_connection
from semel.cli.times import timestamp_of

FORMATS: Final = ("value", "key-value", "json")


def add_parser(commands: Subcommands) -> None:
    parser = add_command(
        commands,
        "consume",
        "read records of a topic",
        "  semel consume orders --from beginning\n"
        "  semel consume orders --from 2026-01-31T12:00:00Z --partition 0 --max 10 --format json\n"
        "  semel consume orders --follow --group billing\n"
        "  semel consume orders --from beginning --isolation read_uncommitted --show-control --format json\n"
        "  semel consume __transaction_state --from beginning\n\n"
        "Without --follow it ends where the topic ends now. --show-control shows markers and marks aborted\n"
        "data as such. The internal topics are decoded.",
        _run,
    )
    parser.add_argument("topic")
    parser.add_argument(
        "--from",
        dest="start",
        metavar="WHERE",
        default="end",
        help="beginning, end, an offset, or a time like 2026-01-31T12:00:00Z (default: end)",
    )
    parser.add_argument("--partition", type=int, action="append", metavar="N", help="only this one; may be repeated")
    parser.add_argument("--group", metavar="ID", help="as a member of this group, and commit; --from is for new groups")
    parser.add_argument(
        "--isolation",
        choices=("read_committed", "read_uncommitted"),
        default="read_committed",
        help="what to see (default: %(default)s)",
    )
    parser.add_argument("--follow", action="store_true", help="go on with what comes, until Ctrl-C")
    parser.add_argument("--max", type=int, metavar="N", help="end after so many records")
    parser.add_argument("--format", choices=FORMATS, default="value", help="(default: %(default)s)")
    parser.add_argument("--show-control", action="store_true", help="also control records and aborted data, marked")
    add_connection(parser)


def _run(options: argparse.Namespace) -> int:
    if options.max is not None and options.max < 1:
        raise UsageError(f"--max {options.max}: it is at least 1")
    settings = client_settings(options)
    if options.group is not None:
        if options.partition or options.show_control:
            raise UsageError(
                "--group shares partitions among its members: it goes with neither --partition nor --show-control"
            )
        from semel.cli.consuming import consume_as_member

        consume_as_member(options, settings)
    else:
        from semel.cli.consuming import consume_partitions

        consume_partitions(options, settings, _start(options.start))
    return Exit.OK


def _start(text: str) -> tuple[str, int | None]:
    """``("beginning" | "end" | "offset" | "time", number)``"""
    if text in ("beginning", "end"):
        return text, None
    if text.isascii() and text.isdigit():
        return "offset", int(text)
    return "time", timestamp_of(text)
