"""``semel consume``: shows the records of a topic, as a consumer sees them or as they are in the log."""

from __future__ import annotations

import argparse
from string import Formatter
from typing import Final

from semel.cli.exits import Exit, UsageError
from semel.cli.option_values import client_settings, unescaped
from semel.cli.parsing import Subcommands, add_command, add_connection
from semel.cli.terminal.times import timestamp_of

FORMATS: Final = ("value", "key-value", "json", "raw", "hex", "base64")
FIELDS: Final = ("topic", "partition", "offset", "timestamp", "time", "key", "value", "headers")


def add_parser(commands: Subcommands) -> None:
    parser = add_command(
        commands,
        "consume",
        "read records of a topic",
        "  semel consume orders\n"
        "  semel consume orders --from 2026-01-31T12:00:00Z --partition 0 --max 10 --format json\n"
        "  semel consume orders --follow --group billing\n"
        "  semel consume orders --from beginning --isolation read_uncommitted --show-control --format json\n"
        "  semel consume __transaction_state --from beginning\n\n"
        "Without --follow it shows what is there, from the beginning to where the topic ends now.\n"
        "--show-control shows markers and marks aborted data as such. The internal topics are decoded.\n"
        "A format with braces is a template: --format '{partition}:{offset}\\t{key}\\t{value}'.",
        _run,
    )
    parser.add_argument("topic")
    parser.add_argument(
        "--from",
        dest="start",
        metavar="WHERE",
        default=None,
        help="beginning, end, an offset, or a time like 2026-01-31T12:00:00Z (default: beginning; end with --follow)",
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
    parser.add_argument(
        "--format",
        default="value",
        metavar="FORMAT",
        help=f"{', '.join(FORMATS)}, or a template of {{{'}, {'.join(FIELDS)}}} (default: %(default)s)",
    )
    parser.add_argument("--show-control", action="store_true", help="also control records and aborted data, marked")
    add_connection(parser)


def _run(options: argparse.Namespace) -> int:
    if options.max is not None and options.max < 1:
        raise UsageError(f"--max {options.max}: it is at least 1")
    options.format = _format(options.format)
    options.start = options.start or ("end" if options.follow and options.group is None else "beginning")
    start = _start(options.start)
    if options.group is not None:
        if options.partition or options.show_control:
            raise UsageError(
                "--group shares partitions among its members: it goes with neither --partition nor --show-control"
            )
        if start[0] not in ("beginning", "end"):
            raise UsageError(f"--from {options.start}: a new group begins at the beginning or at the end")
        from semel.cli.consuming import consume_as_member

        consume_as_member(options, client_settings(options))
    else:
        from semel.cli.consuming import consume_partitions

        consume_partitions(options, client_settings(options), start)
    return Exit.OK


def _format(text: str) -> str:
    """Check ``--format``, which is one of FORMATS or a template of FIELDS, and return it without escapes."""
    if text in FORMATS:
        return text
    try:
        names = [name for _, name, _, _ in Formatter().parse(text) if name is not None]
    except ValueError as error:
        raise UsageError(f"--format {text}: {error}") from None
    unknown = [name for name in names if name not in FIELDS]
    if not names or unknown:
        what = f"there is no field {unknown[0]!r}" if unknown else "it is no format, and no template"
        raise UsageError(f"--format {text}: {what}; formats are {', '.join(FORMATS)}, fields {', '.join(FIELDS)}")
    return unescaped(text)


def _start(text: str) -> tuple[str, int | None]:
    """Parse ``--from``: return ``"beginning"``, ``"end"``, ``"offset"`` or ``"time"``, with the number if there is
    one."""
    if text in ("beginning", "end"):
        return text, None
    if text.isascii() and text.isdigit():
        return "offset", int(text)
    return "time", timestamp_of(text)
