"""Compaction: a log forgets the records that a later one of the same key has replaced, and nothing else.

``cleanable`` decides what and when, ``cleaning`` is one pass over one log, ``batch_filter`` judges a batch, ``swap``
puts the result in the place of the old segments. ``semel.log.compaction.cleaner`` is what a broker talks to. The
design, and what a crash leaves behind: docs/design/compaction.md.
"""
