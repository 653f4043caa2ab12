"""``semel producer list``: shows the idempotent producers of a partition, and where their open transactions begin.

With ``--window`` it shows the last five batches of each producer, by which the partition recognises a batch that is
sent again.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Final

from semel.cli.exits import Exit, UsageError
from semel.cli.option_values import client_settings, partition_of
from semel.cli.parsing import Subcommands, add_command, add_connection_and_json, add_family
from semel.cli.terminal.output import print_rows
from semel.inspection.times import time_text

WITHIN: Final = 100_000
_WINDOW_COLUMNS: Final = (
    "partition", "producer_id", "epoch", "first_sequence", "last_sequence", "first_offset", "time",
)  # fmt: skip


def add_parser(commands: Subcommands) -> None:
    family = add_family(commands, "producer", "look at idempotent producers", "  semel producer list orders:0")
    listing = add_command(
        family,
        "list",
        "show the producers that partitions remember",
        "  semel producer list orders:0 orders:1\n"
        "  semel producer list orders:0 --window\n\n"
        "--window shows the last five batches of each producer, with which a partition recognises one that is sent\n"
        "again. They are read from the log, where compaction or retention may have taken some.",
        _list,
    )
    listing.add_argument("partitions", nargs="+", metavar="TOPIC:PARTITION")
    listing.add_argument("--window", action="store_true", help="the last five batches of each")
    listing.add_argument(
        "--within",
        type=int,
        default=WITHIN,
        metavar="N",
        help="with --window: look for batches among the last N offsets (default: %(default)s)",
    )
    add_connection_and_json(listing)


def _list(options: argparse.Namespace) -> int:
    from semel.blocking import Admin

    partitions = [partition_of("TOPIC:PARTITION", text) for text in options.partitions]
    if options.within < 1:
        raise UsageError(f"--within {options.within}: it is at least 1")
    with Admin(**client_settings(options)) as admin:
        if options.window:
            from semel.inspection.producer_window import windows

            batches = [asdict(batch) for batch in windows(admin, partitions, options.within)]
            print_rows(batches, _WINDOW_COLUMNS, as_json=options.json, empty="no batches with numbers")
            return Exit.OK
        described = admin.partitions.describe_producers(partitions).all()
    rows = [
        {
            "partition": f"{topic}:{index}",
            "producer_id": state.producer_id,
            "epoch": state.producer_epoch,
            "last_sequence": state.last_sequence,
            "last_write": time_text(state.last_timestamp),
            "open_since_offset": state.transaction_start_offset,
        }
        for (topic, index), states in described.items()
        for state in states
    ]
    columns = ("partition", "producer_id", "epoch", "last_sequence", "last_write", "open_since_offset")
    print_rows(rows, columns, as_json=options.json, empty="no producers")
    return Exit.OK
