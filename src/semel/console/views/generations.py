"""The generations of a group over time, read from its partition of ``__consumer_offsets``, as any client can do.

Its coordinator writes a record for each rebalance. The partition also has the records of other groups and all committed
offsets, so it is read only from its end, with a limit, when the group has changed or twice a minute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from semel.admin import GroupDescription
from semel.console.pages import Visit
from semel.console.texts import span
from semel.errors import ErrorCode, KafkaError
from semel.inspection.group_trace import GroupEvent, GroupTrace, group_trace
from semel.inspection.times import timestamp_of

OFFSETS_MAX: Final = 5_000
_EVENTS_MAX: Final = 50
_KEPT_S: Final = 30.0
# The events that begin a generation, in a classic group and in one of KIP-848's protocol.
_BEGINS: Final = ("rebalanced", "group epoch")
_ENDS: Final = (*_BEGINS, "empty", "deleted")


@dataclass(frozen=True, slots=True)
class PastGenerations:
    """The generations of a group. The newest event is first; ``trouble`` is the reason why there are no events.

    ``blocks`` are the arguments of ``charts.lane``.
    """

    events: Sequence[GroupEvent] = ()
    event_count: int = 0
    complete_since: str | None = None
    trouble: str | None = None
    blocks: Sequence[tuple[int, int, str, str]] = ()
    begin_ms: int = 0
    end_ms: int = 0
    offsets_max: int = OFFSETS_MAX


def past_of(visit: Visit, group: GroupDescription) -> PastGenerations:
    connection, name = visit.connection, group.group_id
    try:
        found = connection.answers.get(
            ("generations", group), _KEPT_S, lambda: group_trace(connection.admin, name, offsets_max=OFFSETS_MAX)
        )
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return PastGenerations(trouble=f"none of the last {OFFSETS_MAX} offsets there is about this group")
        return PastGenerations(trouble=str(error))
    return _told(found, visit.now_ms)


def _told(found: GroupTrace, now_ms: int) -> PastGenerations:
    events = found.events[-_EVENTS_MAX:]
    blocks = generation_blocks(events, now_ms)
    return PastGenerations(
        events[::-1],
        len(found.events),
        found.complete_since,
        blocks=blocks,
        begin_ms=blocks[0][0] if blocks else now_ms,
        end_ms=now_ms,
    )


def generation_blocks(events: Sequence[GroupEvent], now_ms: int) -> list[tuple[int, int, str, str]]:
    """Return a block for each generation: it ends when the next one begins, when the group becomes empty, or now."""
    bounds: list[tuple[GroupEvent | None, int]] = [
        (event, _ms(event)) for event in events if event.event in _ENDS and event.time is not None
    ]
    return [
        (begun, max(ended, begun), "good", f"generation {event.generation}: {span(ended - begun)}")
        for (event, begun), (_, ended) in pairwise([*bounds, (None, now_ms)])
        if event is not None and event.event in _BEGINS
    ]


def _ms(event: GroupEvent) -> int:
    return 0 if event.time is None or not event.time.endswith("Z") else timestamp_of(event.time)
