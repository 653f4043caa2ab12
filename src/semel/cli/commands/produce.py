"""``semel produce``: writes records from standard input or a file to a topic, with or without transactions."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO, Final

from semel.cli.exits import Exit, UsageError
from semel.cli.inputs import FORMATS, InputError, InputRecord, format_of, read_records
from semel.cli.option_values import client_settings, key_and_value, unescaped
from semel.cli.parsing import Subcommands, add_command, add_connection_and_json
from semel.cli.terminal.progress import Progress
from semel.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from concurrent.futures import Future

    from semel.blocking import Producer
    from semel.client.values import RecordMetadata

# The number of records for a transaction with the whole input: no limit.
_ALL: Final = sys.maxsize
# So many records are sent before their results are awaited.
_SEND_AT_ONCE: Final = 10_000


def add_parser(commands: Subcommands) -> None:
    parser = add_command(
        commands,
        "produce",
        "write records to a topic",
        "  echo 'three apples' | semel produce orders\n"
        "  semel produce orders --key-separator : < pairs.txt\n"
        "  semel produce orders --file orders.csv --key-field customer\n"
        "  semel produce orders --file orders.parquet --transaction 1000\n"
        "  semel produce orders --atomic --transactional-id nightly < orders.jsonl --format json\n"
        "  printf 'customer-7\\t-\\n' | semel produce customers --key-separator '\\t' --null-value -\n\n"
        "CSV and Parquet rows become JSON objects. With --transaction, readers see all records of a\n"
        "transaction or none of them; if something goes wrong, the open one is aborted. --atomic: all or nothing.",
        _run,
    )
    parser.add_argument("topic")
    parser.add_argument("--file", metavar="FILE", help="read from there instead of standard input")
    parser.add_argument("--format", choices=FORMATS, help="what the input is (default: by the file's name, else lines)")
    key = parser.add_mutually_exclusive_group()
    key.add_argument(
        "--key-separator", metavar="TEXT", type=unescaped, help="lines are key, this, value; '\\t' is a tab"
    )
    key.add_argument("--key-field", metavar="NAME", help="the column or member that is the key")
    key.add_argument("--key", metavar="TEXT", help="one key for all")
    parser.add_argument("--null-value", metavar="TEXT", help="a line with this value is a tombstone: its value is null")
    parser.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help="on all; may be repeated")
    parser.add_argument("--partition", type=int, metavar="N", help="write there (default: by the key)")
    transaction = parser.add_mutually_exclusive_group()
    transaction.add_argument(
        "--transaction",
        type=int,
        nargs="?",
        const=_ALL,
        metavar="N",
        help="commit every N records; all of them at once without a number",
    )
    transaction.add_argument(
        "--atomic",
        dest="transaction",
        action="store_const",
        const=_ALL,
        help="all or nothing: one transaction for the whole input",
    )
    parser.add_argument(
        "--transactional-id", metavar="ID", help="of the transactions (default: semel-produce and the process number)"
    )
    add_connection_and_json(parser)


def _run(options: argparse.Namespace) -> int:
    from semel.blocking import Producer
    from semel.cli.terminal.output import print_facts

    if options.transaction is not None and options.transaction < 1:
        raise UsageError(f"--transaction {options.transaction}: a transaction has at least one record")
    if options.transactional_id is not None and options.transaction is None:
        raise UsageError("--transactional-id takes --transaction or --atomic, too")
    format_name = options.format or (format_of(options.file) if options.file else "lines")
    if options.key_separator is not None and format_name != "lines":
        raise UsageError(f"--key-separator is for lines; for {format_name} there is --key-field")
    if options.null_value is not None and format_name != "lines":
        raise UsageError(f"--null-value is for lines, not for {format_name}")
    if options.key_field is not None and format_name == "lines":
        raise UsageError("--key-field is for csv, json and parquet; lines have --key-separator")
    settings = client_settings(options)
    if options.transaction is not None:
        settings["transactional_id"] = options.transactional_id or f"semel-produce-{os.getpid()}"
    with _opened(options.file) as file, Producer(**settings) as producer, Progress("records written") as progress:
        records = read_records(
            file,
            format_name,
            key_separator=options.key_separator,
            key_field=options.key_field,
            null_value=options.null_value,
        )
        _check_partition(producer, options)
        sender = _Sender(producer, options, progress)
        commits = committed = 0
        try:
            if options.transaction is None:
                sender.send_all(records)
            else:
                for part in _parts(records, options.transaction):
                    with producer.transaction():
                        sender.send_all(part)
                    commits, committed = commits + 1, sender.count
        except InputError as error:
            before = sender.count if options.transaction is None else committed
            where = "before it" if options.transaction is None else "in the transactions before it"
            raise InputError(f"{error}. {_records(before)} {where} were written") from None
    facts = {"topic": options.topic, "records": sender.count}
    if options.transaction is not None:
        facts["transactions"] = commits
    print_facts(facts, as_json=options.json)
    return Exit.OK


def _check_partition(producer: Producer, options: argparse.Namespace) -> None:
    if options.partition is None:
        return
    count = producer.partitions_for(options.topic)
    if not 0 <= options.partition < count:
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"{options.topic} has no partition {options.partition}; it has {count}",
        )


class _Sender:
    """Sends records and waits for their results, so that the first error ends the command."""

    def __init__(self, producer: Producer, options: argparse.Namespace, progress: Progress) -> None:
        self._producer = producer
        self._topic = options.topic
        self._partition = options.partition
        self._key = None if options.key is None else options.key.encode()
        self._headers = [
            (name, value.encode()) for name, value in (key_and_value("--header", text) for text in options.header)
        ]
        self._progress = progress
        self.count = 0

    def send_all(self, records: Iterable[InputRecord]) -> None:
        """Send all records. Raises ``InputError`` for a bad record; the records before it were sent, and ``count`` has
        their number."""
        source = iter(records)
        is_through = False
        while not is_through:
            sent: list[Future[RecordMetadata]] = []
            try:
                for record in itertools.islice(source, _SEND_AT_ONCE):
                    sent.append(self._send(record))  # noqa: PERF401 (those before a bad record are needed)
                is_through = not sent
            finally:
                for future in sent:
                    future.result()
                self.count += len(sent)
                self._progress.advance(len(sent))

    def _send(self, record: InputRecord) -> Future[RecordMetadata]:
        return self._producer.send(
            self._topic,
            record.value,
            key=record.key if self._key is None else self._key,
            partition=self._partition,
            headers=[*record.headers, *self._headers],
        )


def _records(count: int) -> str:
    return "no records" if not count else "1 record" if count == 1 else f"{count} records"


def _parts(records: Iterator[InputRecord], size: int) -> Iterator[Iterator[InputRecord]]:
    """Yield the records in parts of ``size`` records. No part is empty."""
    for first in records:
        yield itertools.chain((first,), itertools.islice(records, size - 1))


@contextlib.contextmanager
def _opened(path: str | None) -> Iterator[BinaryIO]:
    if path is None or path == "-":
        yield sys.stdin.buffer
        return
    try:
        file = open(path, "rb")  # noqa: SIM115 (it is closed below)
    except OSError as error:
        raise UsageError(f"--file {path} cannot be read: {error.strerror}") from None
    with file:
        yield file
