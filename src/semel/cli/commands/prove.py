"""``semel prove``: kills a program at each of its commit points and counts what readers see of its output."""

from __future__ import annotations

import argparse

from semel.cli.parsing import Subcommands, add_command, add_json


def add_parser(commands: Subcommands) -> None:
    parser = add_command(
        commands,
        "prove",
        "kill a program at each of its commit points, and count what readers see",
        "  semel prove --given in.jsonl --expect out.jsonl -- python app.py\n"
        "  semel prove --given in.jsonl --expect out.jsonl --scenario EndTxn -- python app.py\n"
        "  semel prove --given in.jsonl --expect out.jsonl --bootstrap-server localhost:9092 -- python app.py\n\n"
        'A line of the files is {"topic": "orders", "key": "ann", "value": "3"}. Without keys, keys are not compared;\n'
        "a value that is no string is compared as JSON. The program finds the broker in $SEMEL_BOOTSTRAP_SERVERS, in\n"
        "$KAFKA_BOOTSTRAP_SERVERS, or where its arguments say {servers}. It ends by itself, or when it is idle.\n"
        "With --bootstrap-server it is proven there, through a proxy; the topics are made and deleted.\n"
        "Exit code 5: a record is missing, or there too often. 1: a scenario struck nothing, or it never ends.",
        _run,
    )
    parser.add_argument("--given", required=True, metavar="FILE", help="the records of the input topics, as JSON lines")
    parser.add_argument("--expect", required=True, metavar="FILE", help="those of the output topics, in any order")
    parser.add_argument(
        "--bootstrap-server",
        metavar="HOST:PORT",
        help="prove it on this broker, through a proxy; the topics are made and deleted (default: a broker in memory)",
    )
    parser.add_argument("--partitions", type=int, default=2, metavar="N", help="of each topic (default: %(default)s)")
    parser.add_argument(
        "--scenario",
        action="append",
        default=[],
        metavar="TEXT",
        help="only scenarios with this in their name; may be repeated",
    )
    parser.add_argument("--first", action="store_true", help="end with the first scenario that fails")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the random kills (default: %(default)s)")
    parser.add_argument(
        "--idle",
        type=float,
        default=3.0,
        metavar="SECONDS",
        help="end the program when it has done nothing for so long (default: %(default)s)",
    )
    parser.add_argument(
        "--life",
        type=float,
        default=180.0,
        metavar="SECONDS",
        help="give it up after so long (default: %(default)s)",
    )
    add_json(parser)
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="the program and its arguments, after --")


def _run(options: argparse.Namespace) -> int:
    from semel.cli.proving import run

    return run(options)
