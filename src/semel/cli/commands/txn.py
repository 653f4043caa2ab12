"""``semel txn``: list, describe, trace and terminate transactions; find and abort hanging ones."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

from semel.cli.exits import Exit, UsageError
from semel.cli.option_values import client_settings, partition_of
from semel.cli.parsing import Subcommands, add_command, add_connection_and_json, add_family
from semel.cli.terminal.output import print_facts, print_json, print_rows
from semel.errors import SemelError
from semel.inspection.times import time_text

if TYPE_CHECKING:  # At runtime a command imports the client only when it is run.
    from semel.blocking import Admin
    from semel.client.admin.hanging import HangingTransaction
    from semel.inspection.trace import Trace


def add_parser(commands: Subcommands) -> None:
    family = add_family(
        commands,
        "txn",
        "look at transactions, and end those that hang",
        "  semel txn list --state Ongoing\n"
        "  semel txn describe payments\n"
        "  semel txn trace payments\n"
        "  semel txn find-hanging",
    )
    listing = add_command(
        family,
        "list",
        "list the transactional ids",
        "  semel txn list\n  semel txn list --state Ongoing --longer-than 60000",
        _list,
    )
    listing.add_argument("--state", action="append", default=[], help="only those in this state; may be repeated")
    listing.add_argument("--longer-than", type=int, metavar="MS", help="only those that have been open for longer")
    describe = add_command(family, "describe", "show one transactional id", "  semel txn describe payments", _describe)
    describe.add_argument("transactional_id", metavar="ID")
    trace = add_command(
        family,
        "trace",
        "tell the life of a transactional id from the log",
        "  semel txn trace payments\n"
        "  semel txn trace payments --json | jq '.events[-1]'\n\n"
        "Every state with its time and epoch, the partitions with their first offsets, the markers, and\n"
        "what it holds up now. Compaction shortens the history: the first line says from when it is whole.",
        _trace,
    )
    trace.add_argument("transactional_id", metavar="ID")
    terminate = add_command(
        family,
        "terminate",
        "abort the open transaction of a transactional id, and fence its producer",
        "  semel txn terminate payments\n\n"
        "The coordinator aborts it in all its partitions. A producer that still has it open is told that it\n"
        "is fenced, and has to begin again. What hangs, no coordinator knows: semel txn abort is for that.",
        _terminate,
    )
    terminate.add_argument("transactional_id", metavar="ID")
    hanging = add_command(
        family,
        "find-hanging",
        "find open transactions that no coordinator will end",
        "  semel txn find-hanging || echo 'look at these'\n  semel txn find-hanging --topic orders",
        _find_hanging,
    )
    hanging.add_argument("--topic", action="append", default=None, help="look only there; may be repeated")
    abort = add_command(
        family,
        "abort",
        "abort a transaction that hangs, in one partition",
        "  semel txn abort orders:0 --start-offset 1234\n\n"
        "This goes past the coordinator: what it still knows would be aborted here and might be committed\n"
        "elsewhere. So only what find-hanging finds is aborted; --force does not ask.",
        _abort,
    )
    abort.add_argument("partition", metavar="TOPIC:PARTITION")
    abort.add_argument("--start-offset", type=int, metavar="OFFSET", help="where the transaction begins")
    abort.add_argument("--producer-id", type=int, metavar="ID")
    abort.add_argument("--producer-epoch", type=int, metavar="EPOCH")
    abort.add_argument("--force", action="store_true", help="abort it although it does not hang")
    for command in (hanging, abort):
        command.add_argument(
            "--max-transaction-timeout",
            type=int,
            metavar="MS",
            default=None,
            help="the brokers' transaction.max.timeout.ms, if it is not the default (900000)",
        )
    add_connection_and_json(listing, describe, trace, terminate, hanging, abort)


def _list(options: argparse.Namespace) -> int:
    from semel.blocking import Admin

    with Admin(**client_settings(options)) as admin:
        transactions = admin.transactions.list(states=options.state, running_longer_than_ms=options.longer_than)
    rows = [
        {
            "transactional_id": transaction.transactional_id,
            "state": transaction.state,
            "producer_id": transaction.producer_id,
            "coordinator": transaction.broker_id,
        }
        for transaction in transactions
    ]
    columns = ("transactional_id", "state", "producer_id", "coordinator")
    print_rows(rows, columns, as_json=options.json, empty="no transactional ids")
    return Exit.OK


def _describe(options: argparse.Namespace) -> int:
    from semel.blocking import Admin

    with Admin(**client_settings(options)) as admin:
        found = admin.transactions.describe(options.transactional_id)
    age_ms = None if found.start_time_ms is None else max(0, int(time.time() * 1000) - found.start_time_ms)
    print_facts(
        {
            "transactional_id": found.transactional_id,
            "state": found.state,
            "producer_id": found.producer_id,
            "producer_epoch": found.producer_epoch,
            "timeout_ms": found.timeout_ms,
            "started": time_text(found.start_time_ms),
            "age_ms": age_ms,
            "partitions": [f"{topic}:{index}" for topic, index in found.partitions],
        },
        as_json=options.json,
    )
    return Exit.OK


def _trace(options: argparse.Namespace) -> int:
    from semel.blocking import Admin
    from semel.cli.terminal.progress import Progress
    from semel.inspection.trace import trace

    with Admin(**client_settings(options)) as admin, Progress("batches read") as progress:
        found = trace(admin, options.transactional_id, batch_read=progress.advance)
    _print_trace(found, as_json=options.json)
    return Exit.OK


def _print_trace(found: Trace, *, as_json: bool) -> None:
    from semel.inspection.compaction_gaps import since_text

    holds_up = [str(held) for held in found.holds_up]
    if as_json:
        print_json({**asdict(found), "holds_up": holds_up})
        return
    since = since_text(found.complete_since, "the first transaction")
    print_facts({"transactional_id": found.transactional_id, "state": found.state, "complete": since}, as_json=False)
    print()
    events = [asdict(event) for event in found.events]
    print_rows(events, ("time", "state", "producer_id", "epoch", "partitions"), as_json=False)
    print()
    written = [asdict(one) for one in found.written]
    columns = ("partition", "producer_id", "epoch", "first_offset", "last_offset", "marker", "marker_offset", "groups")
    print_rows(written, columns, as_json=False, empty="nothing that it wrote is left in the logs")
    print()
    for line in holds_up or ["nothing"]:
        print(f"holds up {line}")


def _terminate(options: argparse.Namespace) -> int:
    from semel.blocking import Admin
    from semel.inspection.termination import terminate_transaction

    settings = client_settings(options)
    with Admin(**settings) as admin:
        found = admin.transactions.describe(options.transactional_id)
    terminate_transaction(settings, options.transactional_id, timeout_ms=found.timeout_ms)
    with Admin(**settings) as admin:
        state = admin.transactions.describe(options.transactional_id).state
    print_facts(
        {"terminated": options.transactional_id, "state_before": found.state, "state": state}, as_json=options.json
    )
    return Exit.OK


def _find_hanging(options: argparse.Namespace) -> int:
    from semel.blocking import Admin

    with Admin(**client_settings(options)) as admin:
        found = _hanging(admin, options.topic, options)
    rows = [
        {
            "partition": f"{hanging.partition.topic}:{hanging.partition.partition}",
            "start_offset": hanging.start_offset,
            "producer_id": hanging.producer_id,
            "producer_epoch": hanging.producer_epoch,
            "last_write": time_text(hanging.last_timestamp),
            "transactional_id": hanging.transactional_id,
        }
        for hanging in found
    ]
    columns = ("partition", "start_offset", "producer_id", "producer_epoch", "last_write", "transactional_id")
    print_rows(rows, columns, as_json=options.json, empty="nothing hangs")
    return Exit.FOUND if found else Exit.OK


def _abort(options: argparse.Namespace) -> int:
    from semel.blocking import Admin

    partition = partition_of("TOPIC:PARTITION", options.partition)
    has_producer = options.producer_id is not None and options.producer_epoch is not None
    if (options.start_offset is None) is not has_producer:
        raise UsageError("which transaction? Give --start-offset, or --producer-id and --producer-epoch")
    with Admin(**client_settings(options)) as admin:
        hangs = options.force or any(
            found.partition == partition
            and (
                found.producer_id == options.producer_id
                if options.start_offset is None
                else found.start_offset == options.start_offset
            )
            for found in _hanging(admin, [partition[0]], options)
        )
        if not hangs:
            raise _does_not_hang(options)
        admin.transactions.abort(
            partition,
            start_offset=options.start_offset,
            producer_id=options.producer_id,
            producer_epoch=options.producer_epoch,
        )
    print_facts({"aborted": options.partition}, as_json=options.json)
    return Exit.OK


def _does_not_hang(options: argparse.Namespace) -> SemelError:
    offset = options.start_offset
    which = f"of producer {options.producer_id}" if offset is None else f"that begins at offset {offset}"
    return SemelError(
        f"find-hanging lists no transaction {which} on {options.partition}, so it is not aborted. One hangs if nothing "
        "was written in it for longer than transaction.max.timeout.ms and its coordinator does not know it; "
        "--force aborts any"
    )


def _hanging(admin: Admin, topics: list[str] | None, options: argparse.Namespace) -> tuple[HangingTransaction, ...]:
    from semel.client.admin.transactions import MAX_TRANSACTION_TIMEOUT_MS

    timeout_ms = options.max_transaction_timeout
    return admin.transactions.find_hanging(
        topics=topics, max_transaction_timeout_ms=MAX_TRANSACTION_TIMEOUT_MS if timeout_ms is None else timeout_ms
    )
