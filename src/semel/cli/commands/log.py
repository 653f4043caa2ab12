"""``semel log``: verify, repair and dump the files of a data directory."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from semel.cli.exits import Exit, UsageError
from semel.cli.parsing import Subcommands, add_command, add_family, add_json
from semel.cli.terminal.output import print_json, shown
from semel.cli.terminal.progress import Progress
from semel.errors import SemelError

if TYPE_CHECKING:  # At runtime a command imports what it needs only when it is run.
    from semel.log.disk import Disk, Lock
    from semel.log.verification.findings import Report
    from semel.log.verification.partition import ExpectedTopic


def add_parser(commands: Subcommands) -> None:
    family = add_family(
        commands,
        "log",
        "verify, repair and show the files of a data directory",
        "  semel log verify /var/lib/semel\n"
        "  semel log verify /var/lib/semel --deep\n"
        "  semel log repair /var/lib/semel\n"
        "  semel log dump /var/lib/semel/orders-0",
    )
    verify = add_command(
        family,
        "verify",
        "say what is damaged in a data directory, what would be lost, and what the next start would do",
        "  semel log verify /var/lib/semel\n"
        "  semel log verify /var/lib/semel --deep || echo 'damaged'\n"
        "  semel log verify /var/lib/semel --json | jq '.findings[].path'\n\n"
        "Nothing is changed. The broker may run: then what it has synced is verified. Without --deep the\n"
        "headers of batches are read; with it every byte, and what follows from the log is compared with it.",
        _verify,
    )
    verify.add_argument("directory", metavar="DIR")
    verify.add_argument("--deep", action="store_true", help="read every byte: checksums, records, producer state")
    repair = add_command(
        family,
        "repair",
        "make damaged files of a stopped broker right, as far as nothing is lost by it",
        "  semel log repair /var/lib/semel\n"
        "  semel log repair /var/lib/semel --yes\n"
        "  semel log repair /var/lib/semel --accept-loss orders-0\n\n"
        "It verifies with --deep, shows what it would do, and asks. A metadata file is made again from its\n"
        "copy; what follows from a log is removed, and made again by the next start. With --accept-loss a\n"
        "partition is cut where it is not sound any more, so that it can be served again; what is behind\n"
        "that is gone for good. Copy the directory before.",
        _repair,
    )
    repair.add_argument("directory", metavar="DIR")
    repair.add_argument("--yes", action="store_true", help="do not ask")
    repair.add_argument(
        "--accept-loss",
        metavar="TOPIC-PARTITION|metadata",
        action="append",
        default=[],
        help="give up what is damaged there; may be repeated",
    )
    dump = add_command(
        family,
        "dump",
        "show what is in a file of a data directory",
        "  semel log dump /var/lib/semel/orders-0\n"
        "  semel log dump /var/lib/semel/orders-0/00000000000000000000.log --offsets 10..20 --records\n"
        "  semel log dump /var/lib/semel/metadata\n\n"
        "Segments, indexes, snapshots, checkpoints, the journal and the metadata; of a partition's folder\n"
        "all segments. Records of the brokers' own topics are decoded.",
        _dump,
    )
    dump.add_argument("path", metavar="FILE|DIR")
    dump.add_argument("--offsets", metavar="FIRST..LAST", help="only batches with these offsets, both included")
    dump.add_argument("--records", action="store_true", help="the records of each batch, too")
    add_json(verify)
    dump.add_argument("--json", action="store_true", help="one JSON document for each line")


def _verify(options: argparse.Namespace) -> int:
    folder = _directory(options.directory)
    running = _is_in_use(folder)
    report, _ = verify(_reading_disk(), folder, deep=options.deep, running=running)
    if options.json:
        print_json({**_facts(report), "directory": folder, "running": running, "deep": options.deep})
    else:
        _print_report(report, folder, deep=options.deep, running=running)
    return Exit.OK if report.is_sound else Exit.FOUND


def _repair(options: argparse.Namespace) -> int:
    from semel.cli.log_files.repair import carry_out, plan, remedy_for
    from semel.log.disk import SystemDisk

    folder = _directory(options.directory)
    disk = SystemDisk()
    with contextlib.closing(_Held(disk.lock(f"{folder}/.lock"))):
        report, topics = verify(disk, folder, deep=True, running=False)
        steps, left = plan(disk, folder, report, topics, options.accept_loss)
        for finding in left:
            print(f"not repaired: {finding.path}\n  {finding.problem}\n  {remedy_for(finding, folder)}")
        if not steps:
            print("nothing to repair" if report.is_sound else "nothing can be repaired without loss")
            return Exit.FOUND if left else Exit.OK
        print("\n".join(["to be done:", *(f"  {step.text}" for step in steps)]))
        if not options.yes and not _confirmed():
            print("nothing was done")
            return Exit.FAILED
        for text in carry_out(steps):
            print(f"done: {text}")
    return Exit.FOUND if left else Exit.OK


class _Held:
    """Holds the lock of a directory while it is repaired."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock

    def close(self) -> None:
        self._lock.release()


def _confirmed() -> bool:
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask on: say --yes, after a look at what is to be done")
    return input("Do this? [y/N] ").strip().lower() in ("y", "yes")


def _dump(options: argparse.Namespace) -> int:
    from semel.cli.log_files.dump import UNSOUND, dump, offset_range

    path = options.path.rstrip("/")
    if not os.path.exists(path):
        raise UsageError(f"{path} does not exist")
    code = Exit.OK
    for line in dump(_reading_disk(), path, offsets=offset_range(options.offsets), records=options.records):
        if UNSOUND in line:
            code = Exit.FOUND
        if options.json:
            print_json(line)
        else:
            print("  ".join(f"{name}={shown(value)}" for name, value in line.items() if value is not None))
    return code


def verify(disk: Disk, folder: str, *, deep: bool, running: bool) -> tuple[Report, Mapping[str, ExpectedTopic] | None]:
    """Verify all files of a data directory. Returns the report, and the directory's topics if they are known.

    Raises ``SemelError`` if the directory is no data directory of Semel, or if it cannot be read.
    """
    from semel.log.verification.directory import verify_directory
    from semel.metadata.verification import verify_metadata

    try:
        report, topics = verify_metadata(disk, folder, running=running)
        with Progress("verifying, bytes", _size_of_segments(folder)) as progress:
            report.add(verify_directory(disk, folder, topics, deep=deep, running=running, advance=progress.advance))
    except OSError as error:
        raise SemelError(f"{folder} cannot be read: {error}") from None
    return report, topics


def _facts(report: Report) -> dict[str, Any]:
    return {
        "sound": report.is_sound,
        "partitions": report.partitions,
        "files": report.files,
        "bytes": report.bytes,
        "batches": report.batches,
        "records": report.records,
        "findings": [
            {
                "path": finding.path,
                "severity": finding.severity.value,
                "partition": None if finding.partition is None else str(finding.partition),
                "problem": finding.problem,
                "lost": finding.lost,
                "next_start": finding.next_start,
            }
            for finding in report.findings
        ],
    }


def _print_report(report: Report, folder: str, *, deep: bool, running: bool) -> None:
    from semel.log.verification.findings import Severity

    titles: Mapping[Severity, str] = {
        Severity.LOSS: "DAMAGED",
        Severity.DERIVED: "damaged, nothing is lost",
        Severity.NOTE: "note",
    }
    for severity, title in titles.items():
        for finding in (finding for finding in report.findings if finding.severity is severity):
            print(f"{title}: {finding.path}\n  {finding.problem}")
            if finding.lost is not None:
                print(f"  lost: {finding.lost}")
            print(f"  the next start {finding.next_start}")
    how = "every byte was read" if deep else "headers were read; --deep reads every byte"
    if running:
        how += "; a broker runs here, so what it has not synced yet was left out"
    damaged = sum(finding.is_damage for finding in report.findings)
    verdict = "sound" if not damaged else f"{damaged} damaged; see semel log repair --help"
    print(
        f"{report.partitions} partitions, {report.files} files, {report.bytes} bytes, {report.batches} batches, "
        f"{report.records} records: {verdict} ({how})"
    )


def _directory(path: str) -> str:
    folder = os.path.abspath(path)
    if not os.path.isdir(folder):
        raise UsageError(f"{path} is no directory")
    if not any(
        os.path.exists(f"{folder}/{name}") for name in ("meta.properties", "metadata", "metadata.copy", "journal.0")
    ):
        raise UsageError(f"{path} is no data directory of Semel: it has neither meta.properties nor metadata")
    return folder


def _is_in_use(folder: str) -> bool:
    """Whether a running broker uses the directory. It tries to take the directory's lock, shared and for a moment."""
    import fcntl

    try:
        descriptor = os.open(f"{folder}/.lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _reading_disk() -> Disk:
    from semel.log.disk import SystemDisk, SystemFile

    class ReadingDisk(SystemDisk):
        """A disk that opens files for reading only, so that users without write permission can use it."""

        def open(self, path: str, *, create: bool = False) -> SystemFile:
            assert not create, f"{path} is only read"
            return SystemFile(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))

    return ReadingDisk()


def _size_of_segments(folder: str) -> int:
    size_bytes = 0
    for below, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".log"):
                try:
                    size_bytes += os.stat(f"{below}/{name}").st_size
                except FileNotFoundError:
                    continue  # The segment was removed in the meantime.
    return size_bytes
