"""The offsets at which a consumer starts to read its partitions, and those to which ``rewind`` goes back.

Reading starts at the group's committed offset, or else where auto.offset.reset says; but not before the application
knows of the assignment, because it may want to seek. ``rewind`` goes back to what was committed last. If nothing was
committed, it goes back to where reading started, and does not apply auto.offset.reset again: the end of the log has
moved on, and records would be skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random
from typing import Final

from semel.client.config.consumer import ConsumerConfig, OffsetReset
from semel.client.machine.connection.promise import Promise
from semel.client.machine.connection.retry import Retry
from semel.client.machine.consumer.list_offsets import OffsetLookup
from semel.client.machine.consumer.positions import Position, Positions
from semel.client.machine.group.commits import Committed
from semel.client.machine.group.group import Group
from semel.client.values import OffsetAndMetadata, OffsetAndTimestamp
from semel.errors import ErrorCode, KafkaError, client_error
from semel.types import TopicPartition
from semel.wire.messages.list_offsets import EARLIEST, LATEST

_RESETS: Final = {OffsetReset.EARLIEST: EARLIEST, OffsetReset.LATEST: LATEST, OffsetReset.NONE: None}


class StartOffsets:
    """Finds an offset for every position that has none. ``errors`` collects the errors for the application."""

    def __init__(
        self,
        config: ConsumerConfig,
        positions: Positions,
        lookup: OffsetLookup,
        errors: dict[TopicPartition, Exception],
        group: Group | None,
        random: Random,
    ) -> None:
        self._reset_to = _RESETS[config.auto_offset_reset]
        self._positions = positions
        self._lookup = lookup
        self._errors = errors
        self._group = group
        self._unannounced: set[TopicPartition] = set()
        """Assigned partitions that the application does not know of yet."""
        self._restoring: dict[TopicPartition, int | None] = {}
        """Partitions that start at the group's committed offset, with the generation for which it was requested."""
        self._looking: dict[TopicPartition, int] = {}
        """Partitions whose offset is being looked up by time, with the generation for which it is."""
        self._retry = Retry.of(config.client, random)
        self._refused: list[Position] = []
        """The positions whose lookup was refused since the last poll."""
        self._begun: dict[TopicPartition, int] = {}
        """The offsets to which ``rewind`` goes back if the group has none: where reading started, or what is known to
        have been committed, which may have expired.
        """
        self._sought: dict[TopicPartition, int | None] = {}
        """The offsets of seeks since the application last committed; ``None``: a seek by time, not yet known."""

    # What is read

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions and no others; those that were read before keep their position."""
        before = set(self._positions.partitions)
        self._positions.assign(partitions, self._reset_to)
        after = set(self._positions.partitions)
        for gone in before - after:
            self._unannounced.discard(gone)
            for memory in (self._restoring, self._begun, self._sought, self._errors):
                memory.pop(gone, None)
        if self._group is not None:
            self._restoring.update(dict.fromkeys(after - before))

    def withhold(self, partitions: Iterable[TopicPartition]) -> None:
        """Do not start to read these yet: the application does not know of them."""
        self._unannounced.update(partitions)

    def release(self, partitions: Iterable[TopicPartition]) -> None:
        self._unannounced.difference_update(partitions)

    # What the application calls

    def seek(self, position: Position, offset: int) -> None:
        position.seek(offset)
        self._forget(position.topic_partition)
        self._sought[position.topic_partition] = offset

    def seek_to_time(self, position: Position, timestamp: int) -> None:
        position.reset(timestamp)
        self._forget(position.topic_partition)
        self._sought[position.topic_partition] = None

    def settled(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that offsets were committed for these: ``rewind`` does not go back to an earlier seek."""
        for topic_partition in partitions:
            self._sought.pop(topic_partition, None)

    def rewind(self) -> None:
        """Go back to the last committed offsets, or to the offset of a seek since then, or to where reading started."""
        for position in self._positions:
            if position.offset is None:
                continue
            sought = self._sought.get(position.topic_partition)
            if sought is not None:
                position.seek(sought)
            elif self._group is not None:
                committed = self._group.known_committed(position.topic_partition)
                if committed is not None:
                    self._begun[position.topic_partition] = committed.offset
                position.reset(LATEST)
                self._restoring[position.topic_partition] = None
            else:
                position.seek(self._begun.get(position.topic_partition, position.offset))

    def require_way(self, position: Position) -> None:
        """Raise if there is no position and never will be one."""
        is_restoring = position.topic_partition in self._restoring
        if position.offset is None and position.reset_to is None and not is_restoring:
            raise _no_position(position.topic_partition)

    # What happens

    def out_of_range(self, position: Position) -> None:
        """Apply auto.offset.reset to a position that the log no longer has, or never had."""
        if self._reset_to is not None:
            position.reset(self._reset_to)
            return
        self._errors[position.topic_partition] = client_error(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"{position.topic_partition} has no record at offset {position.offset}, and auto.offset.reset is "
            "none: seek to one that it has",
        )

    def poll(self, now_ms: float) -> None:
        """Look up the offset of every partition that has no position."""
        if self._refused:
            self._retry = self._retry.failed(now_ms)
            for position in self._refused:
                position.retry_ms = self._retry.due_ms
            self._refused.clear()
        if self._restoring:
            self._restore()
        for position in self._positions:
            topic_partition = position.topic_partition
            if position.offset is not None:
                continue
            if topic_partition in self._unannounced or topic_partition in self._restoring:
                continue
            if position.reset_to is None:
                self._errors[topic_partition] = _no_position(topic_partition)
            elif self._looking.get(topic_partition) != position.generation and now_ms >= position.retry_ms:
                self._look_up(position, position.reset_to)

    # What the group has committed

    def _restore(self) -> None:
        assert self._group is not None
        asked: dict[TopicPartition, int] = {}
        for topic_partition, looked_up in self._restoring.items():
            position = self._positions[topic_partition]
            if topic_partition in self._unannounced:
                continue
            # After an error, the offset is requested again once the application has seen it, or asks for the position.
            is_wanted = topic_partition not in self._errors or bool(position.waiting)
            if looked_up != position.generation and is_wanted:
                asked[topic_partition] = position.generation
        if asked:
            self._restoring.update(asked)
            self._group.committed(asked).then(lambda promise: self._restored(asked, promise))

    def _restored(self, asked: Mapping[TopicPartition, int], promise: Promise[Committed]) -> None:
        for topic_partition, generation in asked.items():
            position = self._positions.get(topic_partition)
            if position is None or self._restoring.get(topic_partition) != generation:
                continue
            if promise.error is not None:
                self._restoring[topic_partition] = None  # Requested again, once the application has seen the error.
                self._failed(position, promise.error)
                continue
            del self._restoring[topic_partition]
            self._errors.pop(topic_partition, None)  # That of an earlier request, which a call has raised.
            committed = promise.value[topic_partition]
            begun = self._begun.get(topic_partition)
            if committed is not None:
                assert self._group is not None
                position.seek(committed.offset, committed.leader_epoch)
                self._group.settled({topic_partition: OffsetAndMetadata(committed.offset, "", committed.leader_epoch)})
            elif begun is not None:
                position.seek(begun)

    # What the log has

    def _look_up(self, position: Position, timestamp: int) -> None:
        topic_partition, generation = position.topic_partition, position.generation
        self._looking[topic_partition] = generation
        self._lookup.find({topic_partition: timestamp}).then(
            lambda promise: self._found(topic_partition, generation, promise)
        )

    def _found(
        self,
        topic_partition: TopicPartition,
        generation: int,
        promise: Promise[dict[TopicPartition, OffsetAndTimestamp | None]],
    ) -> None:
        if self._looking.get(topic_partition) == generation:
            del self._looking[topic_partition]
        position = self._positions.get(topic_partition)
        if position is None or position.generation != generation:
            return
        if promise.error is not None:
            self._failed(position, promise.error)
            self._refused.append(position)
            return
        self._retry = self._retry.succeeded()
        found = promise.value[topic_partition]
        if found is None:
            position.reset(LATEST)  # No record is that late: the next one will be.
            return
        position.seek(found.offset)
        if topic_partition in self._sought:
            self._sought[topic_partition] = found.offset
        else:
            self._begun[topic_partition] = found.offset

    def _failed(self, position: Position, error: Exception) -> None:
        self._errors[position.topic_partition] = error
        position.fail(error)

    def _forget(self, topic_partition: TopicPartition) -> None:
        self._restoring.pop(topic_partition, None)
        self._errors.pop(topic_partition, None)  # The error belonged to another position.


def _no_position(topic_partition: TopicPartition) -> KafkaError:
    return client_error(
        ErrorCode.OFFSET_OUT_OF_RANGE, f"{topic_partition} has no position, and auto.offset.reset is none: seek to one"
    )
