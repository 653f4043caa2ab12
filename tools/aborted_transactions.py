"""Finds the aborted transactions of a log in the output of DumpLogSegments for its batches.

A transaction of a producer begins with its first transactional batch and ends with its marker. The transaction index of
the segment with an ABORT marker has one entry for it, with the last stable offset after that marker was written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_BATCH = re.compile(
    r"baseOffset: (?P<base>\d+) lastOffset: (?P<last>\d+) .*producerId: (?P<producer>-?\d+) "
    r".*isTransactional: (?P<transactional>\w+) isControl: (?P<control>\w+) "
)
_MARKER = re.compile(r"\| offset: \d+ .*endTxnMarker: (?P<kind>COMMIT|ABORT) ")
_ENTRY = re.compile(
    r"version: 0 producerId: (?P<producer>\d+) firstOffset: (?P<first>\d+) lastOffset: (?P<last>\d+) "
    r"lastStableOffset: (?P<stable>\d+)"
)


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    @classmethod
    def from_dump(cls, line: str) -> AbortedTransaction:
        found = _ENTRY.match(line)
        assert found is not None, f"not an entry of a transaction index: {line}"
        return cls(int(found["producer"]), int(found["first"]), int(found["last"]), int(found["stable"]))


def aborted_transactions(segments: Mapping[int, list[str]]) -> dict[int, list[AbortedTransaction]]:
    """Return the aborted transactions by the base offset of the segment that has the marker.

    Transactions whose first batch is not in this log are left out.
    """
    open_since: dict[int, int] = {}
    aborted: dict[int, list[AbortedTransaction]] = {base_offset: [] for base_offset in sorted(segments)}
    for base_offset in aborted:
        control: re.Match[str] | None = None
        for line in segments[base_offset]:
            if (batch := _BATCH.match(line)) is not None:
                control = batch if batch["control"] == "true" else None
                if control is None and batch["transactional"] == "true":
                    open_since.setdefault(int(batch["producer"]), int(batch["base"]))
            elif control is not None and (marker := _MARKER.match(line)) is not None:
                producer_id, last_offset = int(control["producer"]), int(control["last"])
                first_offset = open_since.pop(producer_id, None)
                if first_offset is not None and marker["kind"] == "ABORT":
                    last_stable_offset = min(open_since.values(), default=last_offset + 1)
                    entry = AbortedTransaction(producer_id, first_offset, last_offset, last_stable_offset)
                    aborted[base_offset].append(entry)
    return aborted
