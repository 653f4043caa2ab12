"""CRC32C (Castagnoli), the checksum of record batches and of the journal.

The function of the package ``crc32c`` is exported without a wrapper: it takes any buffer without a copy, and a wrapper
would take as long as the checksum of a small batch.
"""

from __future__ import annotations

from crc32c import crc32c

__all__ = ["crc32c"]
