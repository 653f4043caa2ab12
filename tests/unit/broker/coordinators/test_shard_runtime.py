"""The runtime of a shard: what was never committed was never told to anyone."""

from __future__ import annotations

import errno

import pytest

from semel.broker.coordinators.shard_runtime import ID_WAIT_MS
from semel.errors import ErrorCode
from semel.replication.replica_set import ReplicaSet
from semel.testing.virtual.disk_faults import DiskFault, Operation
from semel.types import ProducerIdentity
from semel.wire.control import EndTransactionMarker
from tests.unit.broker.coordinators.shard_bench import MOVING, SYNC_MS, Bench, Noted

PRODUCER = ProducerIdentity(7, 0)


def test_a_decision_is_told_when_its_records_are_committed_and_not_before() -> None:
    bench = Bench()
    bench.note("a", 1)
    bench.wait(SYNC_MS / 2000)
    assert bench.told == []
    bench.wait()
    assert bench.told == [Noted(1)]


def test_the_next_decision_sees_what_is_not_yet_committed() -> None:
    bench = Bench()
    bench.note("a", 1)
    assert bench.shard.numbers == {"a": 1}


def test_a_decision_without_records_waits_for_those_it_may_rest_on() -> None:
    bench = Bench()
    bench.note("a", 1)
    bench.runtime.run(lambda shard: shard.read("a"), bench.waiter)
    assert bench.told == [], "told what a crash could take back"
    bench.wait()
    assert bench.told == [Noted(1), Noted(1)]


def test_a_decision_without_records_is_told_at_once_when_all_is_committed() -> None:
    bench = Bench()
    bench.note("a", 1)
    bench.wait()
    assert bench.runtime.run(lambda shard: shard.read("a"), bench.waiter) is None
    assert bench.told == [Noted(1), Noted(1)]


def test_effects_are_carried_out_once_the_records_are_committed_and_before_the_answer() -> None:
    bench = Bench()
    bench.note("a", 1, "markers")
    assert bench.told == []
    bench.wait()
    assert bench.told == ["markers", Noted(1)]


def test_decisions_of_one_turn_share_a_sync_and_are_told_in_their_order() -> None:
    bench = Bench()
    groups = bench.logs.statistics.groups
    for number in range(10):
        bench.note(f"name-{number}", number)
    bench.wait()
    assert bench.told == [Noted(number) for number in range(10)]
    assert bench.logs.statistics.groups == groups + 1


def test_scenario_24_what_could_not_be_written_is_not_replayed_and_the_client_may_try_again() -> None:
    bench = Bench()
    bench.disk.fail(DiskFault(Operation.WRITE, "*/numbers-0/*.log", error=errno.ENOSPC))
    bench.note("a", 1, "markers")
    assert bench.told == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert bench.shard.numbers == {}
    bench.note("a", 2)
    bench.wait()
    assert bench.told == [ErrorCode.COORDINATOR_NOT_AVAILABLE, Noted(2)]


def test_losing_the_partition_tells_all_who_wait_to_look_elsewhere() -> None:
    bench = Bench()
    bench.note("a", MOVING, "markers")
    bench.runtime.run(lambda shard: shard.note_unless_moving("a", 1), bench.waiter)
    bench.runtime.unload()
    assert bench.told == [ErrorCode.NOT_COORDINATOR] * 2
    bench.wait()
    assert bench.told == [ErrorCode.NOT_COORDINATOR] * 2, "what commits after the shard is lost concerns it no more"


def test_scenario_36_a_shard_that_is_loading_or_lost_answers_so_and_decides_nothing() -> None:
    bench = Bench()
    runtime = bench.new_runtime()
    runtime.run(lambda shard: shard.note("a", 1), bench.waiter)
    assert bench.told == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    runtime.loaded()
    runtime.unload()
    runtime.run(lambda shard: shard.note("a", 1), bench.waiter)
    assert bench.told == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]
    assert runtime.shard.numbers == {}


def test_a_log_that_goes_offline_with_records_under_way_takes_the_shard_with_it() -> None:
    bench = Bench()
    bench.note("a", 1, "markers")
    bench.log.go_offline("the disk is gone")
    bench.wait()
    assert bench.told == [ErrorCode.NOT_COORDINATOR], (
        "whether the records survive is not known: nothing may rest on them"
    )
    bench.note("a", 2)
    assert bench.told[1:] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


@pytest.mark.parametrize("has_followers", [False, True])
def test_a_request_is_refused_after_the_sync_of_a_record_has_failed_that_no_request_waited_for(
    has_followers: bool,
) -> None:
    bench = Bench()
    if has_followers:
        followed(bench)
    bench.runtime.apply(bench.shard.note("a", 1))
    bench.disk.fail(DiskFault(Operation.SYNC, "*", times=None))
    bench.wait()
    assert bench.log.offline is not None
    assert bench.log.high_watermark == 0, "the record is replayed, and will never be committed"
    for _ in range(2):
        bench.runtime.run(lambda shard: shard.read("a"), bench.waiter)
        bench.wait()
    assert bench.told == [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE]


# An id between its decision and the last marker.


def test_a_request_for_an_id_that_moves_on_is_decided_when_it_has() -> None:
    bench = Bench()
    bench.note("a", MOVING)
    bench.runtime.run(lambda shard: shard.note_unless_moving("a", 5), bench.waiter)
    bench.wait()
    assert bench.told == [Noted(MOVING)], "nobody is told CONCURRENT_TRANSACTIONS for a matter of milliseconds"
    bench.note("a", 0)
    bench.wait()
    assert bench.told == [Noted(MOVING), Noted(0), Noted(5)]
    assert bench.shard.numbers == {"a": 5}


def test_a_request_for_an_id_that_does_not_move_on_is_told_so_in_the_end() -> None:
    bench = Bench()
    bench.note("a", MOVING)
    bench.runtime.run(lambda shard: shard.note_unless_moving("a", 5), bench.waiter)
    bench.wait(ID_WAIT_MS / 1000 - 0.05)
    assert bench.told == [Noted(MOVING)]
    bench.wait(0.1)
    assert bench.told == [Noted(MOVING), Noted(error=ErrorCode.CONCURRENT_TRANSACTIONS)]
    bench.note("a", 0)
    bench.wait()
    assert bench.shard.numbers == {"a": 0}, "what was answered must not be decided any more"


def test_being_asked_again_does_not_make_the_wait_longer() -> None:
    bench = Bench()
    bench.note("a", MOVING)
    bench.runtime.run(lambda shard: shard.note_unless_moving("a", 5), bench.waiter)
    for _ in range(3):
        bench.wait(0.3)
        bench.note("a", MOVING)
    bench.wait(0.15)
    assert bench.told == [Noted(MOVING)] * 4 + [Noted(error=ErrorCode.CONCURRENT_TRANSACTIONS)]


def test_all_who_wait_for_an_id_are_decided_in_their_order_also_if_they_move_it_themselves() -> None:
    bench = Bench()
    bench.note("a", MOVING)
    for number in (1, 2, MOVING, 4, 5):
        bench.runtime.run(lambda shard, number=number: shard.note_unless_moving("a", number), bench.waiter)
    bench.note("a", 0)
    bench.wait()
    assert bench.told == [Noted(number) for number in (MOVING, 0, 1, 2, MOVING)]
    bench.note("a", 3)
    bench.wait()
    assert bench.told[5:] == [Noted(number) for number in (3, 4, 5)]


def test_another_id_that_moves_on_concerns_nobody_else() -> None:
    bench = Bench()
    bench.note("a", MOVING)
    bench.runtime.run(lambda shard: shard.note_unless_moving("a", 5), bench.waiter)
    bench.note("b", 0)
    bench.wait()
    assert bench.told == [Noted(MOVING), Noted(0)]


def test_a_client_that_has_gone_is_not_decided_for() -> None:
    bench = Bench()
    bench.note("a", MOVING)
    waiting = bench.runtime.run(lambda shard: shard.note_unless_moving("a", 5), bench.waiter)
    assert waiting is not None
    waiting.abandoned()
    bench.note("a", 0)
    bench.wait()
    assert bench.shard.numbers == {"a": 0}


# Transactions in the shard's own partition.


def test_scenario_51_records_of_a_transaction_count_when_its_marker_is_appended() -> None:
    bench = Bench()
    bench.runtime.run(lambda shard: shard.note("a", 1), bench.waiter, producer=PRODUCER)
    assert bench.shard.numbers == {}
    bench.runtime.append_marker(PRODUCER, EndTransactionMarker(True, 0), transaction_version=0)
    assert bench.shard.numbers == {"a": 1}
    bench.runtime.run(lambda shard: shard.note("b", 1), bench.waiter, producer=PRODUCER)
    bench.runtime.append_marker(PRODUCER, EndTransactionMarker(False, 0), transaction_version=0)
    assert (bench.shard.numbers, bench.shard.pending) == ({"a": 1}, {})


def test_what_the_log_has_against_the_producer_is_what_the_producer_is_told() -> None:
    bench = Bench()
    bench.runtime.append_marker(ProducerIdentity(7, 3), EndTransactionMarker(False, 0), transaction_version=0)
    bench.runtime.run(lambda shard: shard.note("a", 1), bench.waiter, producer=PRODUCER)
    assert bench.told == [ErrorCode.INVALID_PRODUCER_EPOCH]


def test_a_decision_of_the_shard_itself_is_written_and_its_effects_wait_for_the_commit() -> None:
    bench = Bench()
    assert bench.runtime.apply(bench.shard.note("a", 1, "markers"))
    assert (bench.shard.numbers, bench.told) == ({"a": 1}, [])
    bench.wait()
    assert bench.told == ["markers"]


def followed(bench: Bench) -> ReplicaSet:
    """From now on the partition has a follower, which has everything."""
    end = bench.log.log_end_offset
    bench.partition.replicas = replicas = ReplicaSet(
        node_id=1,
        replicas=(1, 2),
        isr=(1, 2),
        epoch_start_offset=0,
        log_end_offset=end,
        durable_offset=end,
        high_watermark=end,
        min_insync_replicas=2,
    )
    bench.partition.fetched(2, end, broker_epoch=1, now_ms=0)
    return replicas


def refuse_a_newer_epoch(bench: Bench) -> ReplicaSet:
    """The producer's last transaction is open in this log, and it begins another one."""
    bench.runtime.run(lambda shard: shard.note("a", 1), bench.waiter, producer=PRODUCER)
    bench.wait()
    bench.told.clear()
    replicas = followed(bench)
    newer = PRODUCER._replace(producer_epoch=1)
    bench.runtime.run(lambda shard: shard.note("a", 2), bench.waiter, producer=newer)
    bench.wait()
    return replicas


def test_what_the_log_has_against_a_producer_is_told_when_the_replicas_have_confirmed_the_term() -> None:
    bench = Bench()
    replicas = refuse_a_newer_epoch(bench)
    assert bench.told == [], "a leader that was replaced lacks the marker that its successor has"
    bench.partition.replied(2, replicas.last_ticket)
    bench.wait()
    assert bench.told == [ErrorCode.INVALID_TXN_STATE]


def test_a_shard_that_was_replaced_tells_a_producer_only_that() -> None:
    bench = Bench()
    refuse_a_newer_epoch(bench)
    bench.partition.fail_delayed(ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert bench.told == [ErrorCode.NOT_COORDINATOR]
