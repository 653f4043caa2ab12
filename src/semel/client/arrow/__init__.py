"""Record batches to and from Arrow, without a line of Python per record.

``encode`` cuts Arrow columns into the very batches that ``BatchBuilder`` would have made of the same records, and
``decode`` gives the very records that ``iterate_records`` would have given. Pure functions over buffers: who sends and
fetches them is not decided here.
"""

from semel.client.arrow.decoding import decode
from semel.client.arrow.encoding import EncodedBatch, OversizedRecord, encode

__all__ = ["EncodedBatch", "OversizedRecord", "decode", "encode"]
