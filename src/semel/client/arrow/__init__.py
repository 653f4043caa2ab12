"""Record batches to and from Arrow columns, without running Python code for each record.

``encode`` makes exactly the batches that ``BatchBuilder`` would make of the same records, and ``decode`` gives exactly
the records that ``iterate_records`` would give. Both are pure functions over buffers; they do not send or fetch.
"""

from semel.client.arrow.decoding import decode
from semel.client.arrow.encoding import EncodedBatch, OversizedRecord, encode

__all__ = ["EncodedBatch", "OversizedRecord", "decode", "encode"]
