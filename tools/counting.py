"""A counter in a metadata store, which several processes increment: no number may be written twice."""

from __future__ import annotations

from semel.metadata.store import MetadataStore, VersionConflict, compare_and_set


async def count_up(store: MetadataStore, times: int) -> list[int]:
    """Increment the counter ``times`` times. Return the numbers whose writes succeeded."""
    written: list[int] = []
    while len(written) < times:
        known = await store.get("/counter")
        number = 0 if known is None else int(known.value)
        try:
            await compare_and_set(store, "/counter", b"%d" % (number + 1), None if known is None else known.version)
        except VersionConflict:
            continue
        written.append(number + 1)
    return written
