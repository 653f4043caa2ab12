"""Checks every file of a data directory with Apache Kafka's own DumpLogSegments.

The tool prints its findings and ends with code 0 in any case, so its output is compared with a list of the lines that
it prints for a sound file: **a line that is not known to be good is a finding**. The tool does not check aborted
transactions and where a segment starts: these are compared here with the batches of the log itself.

The broker must be stopped: files that are being written need not agree with each other. The tool opens indexes for
writing and may truncate an incomplete one, so use it only on data that may be changed.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.aborted_transactions import AbortedTransaction, aborted_transactions
from tools.brokers import JavaFailed, run_java

# The log of Kafka's metadata quorum has its own record format, which the tool reads with another option.
_NOT_PARTITIONS = ("__cluster_metadata-",)
_FILES_PER_RUN = 200
_TXNINDEX_ENTRY_BYTES = 34

_GOOD_LINES = {
    ".log": re.compile(r"Log starting offset: \d+$|baseOffset: .* isvalid: true$|\| offset: \d+ "),
    ".index": re.compile(r"\S+ (passed sanity check|is empty)\.$"),
    ".timeindex": re.compile(r"\S+ (passed sanity check|is empty)\.$"),
    ".txnindex": re.compile(r"version: 0 producerId: "),
    ".snapshot": re.compile(r"producerId: "),
}
# Errors are printed after the last file, under a line that ends with the file's path.
_REPORT_ON = re.compile(r"(?P<what>[A-Z].*) in :?(?P<path>/.+\.\w+)$")
# The tool counts from -1 in every file, so it reports a gap before the first record of each segment but the first.
_FIRST_RECORD = re.compile(r"Non-consecutive offsets|  -1 is followed by \d+$")
_GAP = re.compile(r"  \d+ is followed by \d+$")


@dataclass(frozen=True, slots=True)
class Finding:
    path: Path
    message: str

    def __str__(self) -> str:
        return f"{self.path.parent.name}/{self.path.name}: {self.message}"


@dataclass(frozen=True, slots=True)
class Report:
    files: dict[str, int]
    findings: tuple[Finding, ...]


def examine(data_dir: Path, *, compacted: frozenset[str] = frozenset()) -> Report:
    """Check every file of every partition with Kafka's tool. ``compacted`` are topics whose offsets may have gaps."""
    partitions = [folder for folder in sorted(data_dir.iterdir()) if _is_partition(folder)]
    files = {
        suffix: [path for folder in partitions for path in sorted(folder.glob(f"*{suffix}"))] for suffix in _GOOD_LINES
    }
    findings: list[Finding] = []
    # The sanity check must be first: with other options the tool truncates an index after its last complete entry.
    for suffix in (".index", ".timeindex"):
        _judge(suffix, _dump(files[suffix], ["--index-sanity-check"], findings), frozenset(), findings)
    dumped = {suffix: _dump(paths, _options(suffix), findings) for suffix, paths in files.items()}
    for suffix, lines in dumped.items():
        _judge(suffix, lines, compacted, findings)
    for folder in partitions:
        findings += _misplaced_segments(folder, dumped[".log"])
        findings += _wrong_aborted_transactions(folder, dumped[".log"], dumped[".txnindex"])
    return Report({suffix: len(paths) for suffix, paths in files.items()}, tuple(findings))


def _options(suffix: str) -> list[str]:
    match suffix:
        case ".log":
            return ["--deep-iteration"]
        case ".index" | ".timeindex":
            return ["--verify-index-only"]
        case _:
            return []


def _is_partition(folder: Path) -> bool:
    named = re.fullmatch(r".+-\d+", folder.name) is not None
    return folder.is_dir() and named and not folder.name.startswith(_NOT_PARTITIONS)


def _dump(paths: list[Path], options: list[str], findings: list[Finding]) -> dict[Path, list[str]]:
    """Return the lines that the tool prints for each file. Each start of Java reads many files."""
    sections: dict[Path, list[str]] = {}
    waiting = list(paths)
    while waiting:
        group = waiting[:_FILES_PER_RUN]
        argument = ",".join(map(str, group))
        failed = False
        try:
            output = run_java("org.apache.kafka.tools.DumpLogSegments", [*options, "--files", argument])
        except JavaFailed as error:
            output, failed = error.output, True
        read = _sections(output.splitlines())
        sections |= read
        if failed:
            # The tool stops at the first file that it cannot read; the files after it were not read.
            culprit = list(read)[-1] if read else group[0]
            findings.append(Finding(culprit, "the tool failed on it"))
            waiting = waiting[waiting.index(culprit) + 1 :]
        else:
            findings += [Finding(path, "the tool did not read it") for path in group if path not in read]
            waiting = waiting[len(group) :]
    return sections


def _sections(lines: Iterable[str]) -> dict[Path, list[str]]:
    sections: dict[Path, list[str]] = {}
    current: list[str] = []
    for line in lines:
        if line.startswith("Dumping "):
            current = sections.setdefault(Path(line.removeprefix("Dumping ")), [])
        elif (report := _REPORT_ON.match(line)) is not None:
            current = sections.setdefault(Path(report["path"]), [])
            current.append(report["what"])
        else:
            current.append(line)
    return sections


def _judge(suffix: str, dumped: dict[Path, list[str]], compacted: frozenset[str], findings: list[Finding]) -> None:
    for path, lines in dumped.items():
        good = [_GOOD_LINES[suffix], _FIRST_RECORD]
        if path.parent.name.rpartition("-")[0] in compacted:
            good.append(_GAP)
        bad = [line for line in lines if not any(pattern.match(line) for pattern in good)]
        findings += [Finding(path, line.strip()) for line in bad[:5]]


def _misplaced_segments(folder: Path, logs: dict[Path, list[str]]) -> Iterator[Finding]:
    for path, lines in logs.items():
        if path.parent != folder:
            continue
        base_offset = int(path.stem)
        for line in lines:
            found = re.match(r"baseOffset: (\d+) ", line)
            if found is not None:
                if int(found[1]) < base_offset:
                    yield Finding(path, f"its first batch starts at {found[1]}, before the offset in its name")
                break


def _wrong_aborted_transactions(
    folder: Path, logs: dict[Path, list[str]], indexes: dict[Path, list[str]]
) -> Iterator[Finding]:
    segments = {int(path.stem): lines for path, lines in logs.items() if path.parent == folder}
    for base_offset, expected in aborted_transactions(segments).items():
        path = folder / f"{base_offset:020d}.txnindex"
        indexed = [
            AbortedTransaction.from_dump(line) for line in indexes.get(path, []) if line.startswith("version: 0")
        ]
        known = [entry for entry in indexed if entry.first_offset >= min(segments)]
        if known != expected:
            yield Finding(path, f"aborted transactions {known}, but the log holds {expected}")
        # The tool stops without an error at an incomplete entry.
        if path.exists() and path.stat().st_size % _TXNINDEX_ENTRY_BYTES != 0:
            yield Finding(path, f"{path.stat().st_size} bytes is no multiple of {_TXNINDEX_ENTRY_BYTES}")


def main() -> int:
    report = examine(Path(sys.argv[1]).absolute())
    print("\n".join(map(str, report.findings)) or "sound", report.files, sep="\n")
    return 1 if report.findings else 0


if __name__ == "__main__":
    sys.exit(main())
