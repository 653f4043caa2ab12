"""Text files with a checksum in the last line, one ``key: value`` per line. The format is our own.

    version: 1
    recovery_point: 120
    ...
    crc32c: 1a2b3c4d          of every byte before this line

The law: ``decode`` returns exactly what was encoded, or raises ``DecodeError``. It detects a changed bit, a truncated
file and a missing line.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from semel.errors import DecodeError
from semel.wire.crc import crc32c

CHECKSUM_KEY: Final = "crc32c"


def encode(fields: Iterable[tuple[str, object]]) -> bytes:
    body = "".join(f"{key}: {value}\n" for key, value in fields).encode("ascii")
    return body + f"{CHECKSUM_KEY}: {checksum(body)}\n".encode("ascii")


def decode(data: bytes, *, version: int) -> list[tuple[str, str]]:
    """The fields after the version, in order. A key may occur more than once. Raises ``DecodeError``."""
    body, mark, given = data.rpartition(f"{CHECKSUM_KEY}: ".encode("ascii"))
    if not mark or given != f"{checksum(body)}\n".encode("ascii"):
        raise DecodeError(f"its checksum does not match its {len(data)} bytes")
    # The file is undamaged: what is wrong from here on was written so, perhaps by another version of this program.
    if not body.isascii():
        raise DecodeError("it is not plain text")
    fields: list[tuple[str, str]] = []
    for line in body.decode("ascii").splitlines():
        key, found, value = line.partition(": ")
        if not found:
            raise DecodeError(f"{line[:100]!r}; a line is: key: value")
        fields.append((key, value))
    if not fields or fields[0] != ("version", str(version)):
        raise DecodeError(f"it begins with {fields[:1]}; only version {version} is known")
    return fields[1:]


def checksum(body: bytes) -> str:
    return f"{crc32c(body):08x}"
