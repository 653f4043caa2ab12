"""The attacks, one module for each subject. Importing this package fills ``tools.hostile.attack_context.ATTACKS``."""

from tools.hostile.attacks import (
    compressed,
    connections,
    flow,
    fuzzed,
    groups,
    many_elements,
    patterns,
    record_batches,
    sessions,
    topics,
    transactions,
    widened,
)

__all__ = [
    "compressed",
    "connections",
    "flow",
    "fuzzed",
    "groups",
    "many_elements",
    "patterns",
    "record_batches",
    "sessions",
    "topics",
    "transactions",
    "widened",
]
