"""What must be the same before and after a pass, whatever the log: for producers, and for readers of both kinds."""

from __future__ import annotations

from dataclasses import dataclass

from semel.errors import ErrorCode, KafkaError
from semel.log.outcomes import Origin
from semel.log.producers.producer_state import OpenTransaction, ProducerDescription
from tests.logs import FOLDER
from tests.unit.log.compaction.bench import Bench, Read, Sent, latest


class Unfaithful(AssertionError):
    """Compaction has changed what it must not."""


@dataclass(frozen=True, slots=True)
class Faithful:
    """A log as it was before a pass."""

    committed: list[Read]
    uncommitted: list[Read]
    end_offset: int
    last_stable_offset: int
    producers: list[ProducerDescription]
    open: list[OpenTransaction]
    aborted: list[tuple[int, int, int]]

    def check(self, bench: Bench) -> None:
        """As it is now, as the next start finds it, and as one would make it that has nothing but the batches."""
        self._check(bench, "now")
        again = bench.copy()
        self._check(again, "after a start")
        _check_producers_go_on(again)
        self._check(_from_batches_alone(bench), "made again from its batches")

    def _check(self, bench: Bench, when: str) -> None:
        committed = bench.committed()
        _same("the table of committed records", when, latest(self.committed), latest(committed))
        _same("what one large fetch says", when, committed, bench.committed(max_bytes=1_000_000))
        _same("new committed records", when, [], [read for read in committed if read not in self.committed])
        _same("new records", when, [], [read for read in bench.records() if read not in self.uncommitted])
        undecided = [read for read in self.uncommitted if read.offset >= self.last_stable_offset]
        still = [read for read in bench.records() if read.offset >= self.last_stable_offset]
        _same("what was beyond the last stable offset", when, undecided, still)
        _same("the log end", when, self.end_offset, bench.log.log_end_offset)
        _same("the last stable offset", when, self.last_stable_offset, bench.log.last_stable_offset)
        _same("open transactions", when, self.open, bench.log.producers.open_transactions)
        # In batches there are also producers that had expired.
        known = {found.producer_id for found in self.producers}
        producers = [found for found in bench.log.describe_producers() if found.producer_id in known]
        _same("producers", when, _numbers(self.producers), _numbers(producers))
        _same("new aborted transactions", when, [], [entry for entry in bench.aborted() if not self._had(entry)])

    def _had(self, entry: tuple[int, int, int]) -> bool:
        """An index that was made again begins with the first record that is left."""
        producer_id, first_offset, last_offset = entry
        return any(
            producer_id == known and first <= first_offset and last_offset == last
            for known, first, last in self.aborted
        )


def remember(bench: Bench) -> Faithful:
    return Faithful(
        committed=bench.committed(),
        uncommitted=bench.records(),
        end_offset=bench.log.log_end_offset,
        last_stable_offset=bench.log.last_stable_offset,
        producers=bench.log.describe_producers(),
        open=bench.log.producers.open_transactions,
        aborted=bench.aborted(),
    )


def _same(what: str, when: str, before: object, after: object) -> None:
    if before != after:
        raise Unfaithful(f"{what}, {when}: {after}; it was {before}")


def _numbers(producers: list[ProducerDescription]) -> list[tuple[int, int, int | None]]:
    """Times and coordinators are the snapshot's to keep: batches alone do not hold all of them."""
    return [(found.producer_id, found.producer_epoch, found.last_sequence) for found in producers]


def _from_batches_alone(bench: Bench) -> Bench:
    """Whatever is derived from the log is gone, and so is the knowledge of how far it was synced."""
    other = bench.copy()
    open_from_batches(other)
    return other


def open_from_batches(bench: Bench) -> None:
    """Open the log with nothing but its batches: no snapshot, no index, no recovery point."""
    bench.disk.kill()
    for name in bench.disk.list(FOLDER):
        if name.endswith((".snapshot", "index")):
            bench.disk.remove(f"{FOLDER}/{name}")
    bench.recovery_point = 0
    bench.open()


def _check_producers_go_on(bench: Bench) -> None:
    """Every producer repeats its last five batches, and then sends the next one."""
    for found in bench.log.describe_producers():
        producer, epoch = found.producer_id, found.producer_epoch
        sent = [batch for batch in bench.sent.get(producer, []) if batch.epoch == epoch]
        for batch in sent[-5:]:
            _check_retry(bench, producer, batch)
        if found.current_transaction_start_offset is None and sent:
            end_offset = bench.log.log_end_offset
            try:
                appended = bench.put(("next", "1"), producer=producer, epoch=epoch)
            except KafkaError as error:
                raise Unfaithful(f"the next batch of producer {producer} was refused: {error}") from error
            _same(f"the next batch of producer {producer}", "after a start", end_offset, appended.base_offset)


def _check_retry(bench: Bench, producer: int, batch: Sent) -> None:
    end_offset = bench.log.log_end_offset
    try:
        appended = bench.log.append(memoryview(bytearray(batch.data)), now_ms=bench.now_ms, origin=Origin.COORDINATOR)
        _same(f"a batch repeated by producer {producer}", "after a start", batch.base_offset, appended.base_offset)
    except KafkaError as error:
        # Clients take it for the success that it was.
        _same(f"a batch repeated by {producer}", "after a start", ErrorCode.DUPLICATE_SEQUENCE_NUMBER, error.code)
    _same(f"the log after a repetition by {producer}", "after a start", end_offset, bench.log.log_end_offset)
