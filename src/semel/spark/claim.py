"""The claim of a pipeline: the exclusive right to its transactional id and its groups, until another start takes it
over.

A transactional id fences drivers that use the same one. A group is fenced by a second transactional id that is named
after it and has no transactions, so that pipelines with different transactional ids cannot both commit its offsets.

The law: the fence is taken before offsets are read, and it is confirmed after offsets are pending and before they are
committed. docs/design/spark.md says why no commit is missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from semel.blocking import Producer
from semel.client.values import OffsetAndMetadata, ProducerIdentity
from semel.errors import AuthorizationFailed, ProducerFenced
from semel.spark.cluster import Cluster, outages_of_process
from semel.spark.decision import Note, SourcePartition, by_group
from semel.spark.errors import PipelineError, Superseded
from semel.spark.refusals import Refused

_FENCE_SUFFIX: Final = ".semel-fence"


def fence_of(group_id: str) -> str:
    """Return the transactional id that fences a group."""
    return f"{group_id}{_FENCE_SUFFIX}"


class Claim:
    def __init__(self, settings: Mapping[str, Any], producer: Producer, fences: Mapping[str, Producer]) -> None:
        self.producer = producer
        self._settings = dict(settings)
        self._fences = dict(fences)

    @classmethod
    def take(cls, settings: Mapping[str, Any], group_ids: Iterable[str]) -> Claim:
        """Take over the transactional id and the groups. Drivers that held them can no longer commit.

        ``settings`` are those of the pipeline's producer. Raises what ``Producer.init`` raises.
        """
        producers: list[Producer] = []
        try:
            producers.append(_initialized(settings))
            fences = {}
            for group_id in sorted(group_ids):
                fences[group_id] = _fence(settings, group_id)
                producers.append(fences[group_id])
            return cls(settings, producers[0], fences)
        except BaseException:
            for producer in producers:
                producer.close(timeout_ms=0)
            raise

    @property
    def fence_identity(self) -> ProducerIdentity:
        """The producer id and epoch of the first group's fence, as they are now. A later start has another producer id
        or a higher epoch, whatever its transactional id is."""
        return self._fences[min(self._fences)].identity

    @property
    def transaction_timeout_ms(self) -> int:
        return int(self._settings["transaction_timeout_ms"])

    def send_offsets(
        self,
        offsets: Mapping[SourcePartition, OffsetAndMetadata],
        committed: Mapping[SourcePartition, OffsetAndMetadata],
        cluster: Cluster,
    ) -> None:
        """Send offsets to the open transaction. When this returns, the transaction may be committed.

        ``committed`` are the offsets that the groups should have committed up to now. Raises ``Superseded`` if another
        pipeline has taken over a group, and ``PipelineError`` if any other client has committed to it.
        """
        for group_id, own in by_group(offsets).items():
            self.producer.send_offsets(own, group_id)
        for group_id, own in by_group(offsets).items():
            self._confirm(group_id, cluster)
            found = cluster.committed(group_id, own, stable=False)
            expected = {
                partition: at
                for partition, at in committed.items()
                if partition in offsets and partition.group_id == group_id
            }
            at = {SourcePartition(group_id, topic_partition): one for topic_partition, one in found.items()}
            check_unchanged(expected, at, self._transactional_id)

    def confirm(self, cluster: Cluster) -> None:
        """Check that this pipeline still has the fences of its groups. Raises ``Superseded`` if another pipeline has
        taken over a group."""
        for group_id in self._fences:
            self._confirm(group_id, cluster)

    def renew(self, transaction_timeout_ms: int, cluster: Cluster) -> None:
        """Take over this pipeline's own transactional id again, with another timeout, after the broker has aborted a
        transaction that took too long.

        Raises ``Superseded`` if another start fenced this one: that start has taken over the groups' fences as well.
        """
        self.confirm(cluster)
        self.producer.close(timeout_ms=0)
        self._settings["transaction_timeout_ms"] = transaction_timeout_ms
        self.producer = _initialized(self._settings)

    def close(self, *, timeout_ms: int) -> None:
        """Close the producers, which aborts an open transaction. Each of them waits for at most ``timeout_ms``."""
        for producer in (self.producer, *self._fences.values()):
            producer.close(timeout_ms=timeout_ms)

    @property
    def _transactional_id(self) -> str:
        return str(self._settings["transactional_id"])

    def _confirm(self, group_id: str, cluster: Cluster) -> None:
        try:
            self._fences[group_id].bump_epoch()
        except ProducerFenced as error:
            found = cluster.committed(group_id, stable=False)
            raise Superseded(_taken_over(group_id, self._transactional_id, found.values())) from error


def check_unchanged(
    expected: Mapping[SourcePartition, OffsetAndMetadata],
    found: Mapping[SourcePartition, OffsetAndMetadata],
    transactional_id: str,
) -> None:
    """Check that the committed offsets are those that this pipeline last read or committed.

    Raises ``Superseded`` if another pipeline has committed since, and ``PipelineError`` if any other client has.
    """
    for partition in dict.fromkeys([*expected, *found]):
        before, now = expected.get(partition), found.get(partition)
        # An offset that has expired or was deleted in the meantime is committed again. It is no sign of another
        # pipeline, since this one has the fence.
        if now is None or _said(before) == _said(now):
            continue
        note = Note.parse(now.metadata)
        if note is not None and note.owner not in (None, transactional_id):
            raise Superseded(_taken_over(partition.group_id, transactional_id, found.values()))
        was = before.offset if before is not None else "no offset"
        raise PipelineError(
            f"{partition.topic_partition} of group {partition.group_id!r} was at {was} and is at {now.offset} now: "
            f"{_committed_by(note)}. Nothing of this batch was committed. Give the pipeline a group of its own"
        )


def _said(at: OffsetAndMetadata | None) -> tuple[int, str] | None:
    """Return offset and metadata, without the leader epoch, which a pipeline does not commit."""
    return None if at is None else (at.offset, at.metadata)


def _committed_by(note: Note | None) -> str:
    if note is None:
        return "a consumer or a tool that is no pipeline committed it"
    return "another driver committed it, of a version that does not fence its group"


def _taken_over(group_id: str, transactional_id: str, found: Iterable[OffsetAndMetadata]) -> str:
    notes = [Note.parse(at.metadata) for at in found]
    owners = {note.owner for note in notes if note is not None} - {None, transactional_id}
    by = f" with transactional id {', '.join(sorted(map(repr, owners)))}" if owners else ""
    return (
        f"another pipeline{by} has taken over group {group_id!r} and continues from its offsets. "
        f"This one, {transactional_id!r}, writes nothing more: give it a group of its own, or stop the "
        "other one and start this again"
    )


def _initialized(settings: Mapping[str, Any]) -> Producer:
    producer = Producer(**{"outages": outages_of_process(), **settings})
    try:
        producer.init()
    except BaseException:
        producer.close(timeout_ms=0)
        raise
    return producer


def _fence(settings: Mapping[str, Any], group_id: str) -> Producer:
    try:
        return _initialized({**settings, "transactional_id": fence_of(group_id)})
    except AuthorizationFailed as error:
        raise Refused(
            f"transactional id {fence_of(group_id)!r} fences group {group_id!r}, and may not be used: {error}. Allow "
            "the pipeline's user WRITE on it"
        ) from error
