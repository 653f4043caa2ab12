"""What the look into a batch costs before it is appended: ``python -m benchmarks.record_checks``.

One batch of each kind is checked again and again, and the best of several rounds counts, in processor time: the figures
are those of this code, not of what else the machine does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Final

from benchmarks.processor_time import best_seconds
from semel.log.batch_check import BatchCheck, passes_quick_record_check
from semel.log.config import LogConfig
from semel.wire.records import BatchHeader, Codec, Record, build_batch, parse_header

_TIME_MS: Final = 1_750_000_000_000


def main() -> None:
    print("| batch | bytes | records | us for the batch | ns for a record |")
    print("|---|--:|--:|--:|--:|")
    chance = Random(1)
    for title, codec, records in (
        ("1 record of 100 B", Codec.NONE, _records(1, lambda _: 100)),
        ("10 records of 100 B", Codec.NONE, _records(10, lambda _: 100)),
        ("16 KB of 1 KB records", Codec.NONE, _records(15, lambda _: 1000)),
        ("16 KB of 100 B records", Codec.NONE, _records(145, lambda _: 100)),
        ("1 MB of 1 KB records", Codec.NONE, _records(980, lambda _: 1000)),
        ("1 MB of 100 B records", Codec.NONE, _records(9000, lambda _: 100)),
        ("1 MB of 50 to 150 B, keys of 1 to 8", Codec.NONE, _records(9000, lambda _: chance.randint(50, 150), chance)),
        (
            "1 MB of 900 to 1,100 B, keys of 1 to 8",
            Codec.NONE,
            _records(980, lambda _: chance.randint(900, 1100), chance),
        ),
        ("1 MB of 100 B records, lz4", Codec.LZ4, _records(9000, lambda _: 100)),
        ("1 MB of 100 B records, zstd", Codec.ZSTD, _records(9000, lambda _: 100)),
        ("1 MB of 100 B records, gzip", Codec.GZIP, _records(9000, lambda _: 100)),
        ("1,000,000 records without content, zstd", Codec.ZSTD, _records(1_000_000, lambda _: 0)),
    ):
        batch = memoryview(bytearray(build_batch(records, codec=codec)))
        header = parse_header(batch)
        taken_s = best_seconds(partial(_check, batch, header))
        count = len(records)
        print(f"| {title} | {len(batch):,} | {count:,} | {taken_s * 1e6:,.1f} | {taken_s * 1e9 / count:,.0f} |")


def _check(batch: memoryview, header: BatchHeader) -> None:
    if passes_quick_record_check(batch, header):
        return
    check = BatchCheck(batch, _CONFIG)
    check.finish()
    assert check.fault is None, check.fault


def _records(count: int, size: Callable[[int], int], keys: Random | None = None) -> list[Record]:
    """Half of each value is chance, so that codecs find something to do and do not find everything."""
    content = Random(2)
    records = []
    for number in range(count):
        length = size(number)
        value = content.randbytes(length // 2) + bytes(length - length // 2)
        key = None if keys is None else b"k" * keys.randint(1, 8)
        records.append(Record(number, _TIME_MS + number // 500, key, value))
    return records


_CONFIG: Final = LogConfig()

if __name__ == "__main__":
    main()
