"""CRC32C (Castagnoli), the checksum of record batches and of the journal.

The package's own function is handed on unwrapped: it takes any buffer without a copy, and a wrapper would cost as much
as the checksum of a small batch.
"""

from __future__ import annotations

from crc32c import crc32c

__all__ = ["crc32c"]
