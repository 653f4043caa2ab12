"""The runtime of a shard: what was never committed was never told to anyone."""

from __future__ import annotations

import errno

from semel.broker.coordinators.shard_runtime import MOVING_WAIT_MS
from semel.errors import ErrorCode
from semel.testing.virtual.disk_faults import DiskFault, Operation
from semel.types import ProducerIdentity
from semel.wire.control import EndTransactionMarker
from tests.unit.broker.coordinators.shard_bench import MOVING, SYNC_MS, Bench, Noted

PRODUCER = ProducerIdentity(7, 0)


def test_a_decision_is_told_when_its_records_are_committed_and_not_before() -> None:
    scene = Bench()
    scene.note("a", 1)
    scene.wait(SYNC_MS / 2000)
    assert scene.told == []
    scene.wait()
    assert scene.told == [Noted(1)]


def test_the_next_decision_sees_what_is_not_yet_committed() -> None:
    scene = Bench()
    scene.note("a", 1)
    assert scene.shard.numbers == {"a": 1}


def test_a_decision_without_records_waits_for_those_it_may_rest_on() -> None:
    scene = Bench()
    scene.note("a", 1)
    scene.runtime.run(lambda shard: shard.read("a"), scene.told.append)
    assert scene.told == [], "told what a crash could take back"
    scene.wait()
    assert scene.told == [Noted(1), Noted(1)]


def test_a_decision_without_records_is_told_at_once_when_all_is_committed() -> None:
    scene = Bench()
    scene.note("a", 1)
    scene.wait()
    assert scene.runtime.run(lambda shard: shard.read("a"), scene.told.append) is None
    assert scene.told == [Noted(1), Noted(1)]


def test_effects_are_carried_out_once_the_records_are_committed_and_before_the_answer() -> None:
    scene = Bench()
    scene.note("a", 1, "markers")
    assert scene.told == []
    scene.wait()
    assert scene.told == ["markers", Noted(1)]


def test_decisions_of_one_turn_share_a_sync_and_are_told_in_their_order() -> None:
    scene = Bench()
    groups = scene.logs.statistics.groups
    for number in range(10):
        scene.note(f"name-{number}", number)
    scene.wait()
    assert scene.told == [Noted(number) for number in range(10)]
    assert scene.logs.statistics.groups == groups + 1


def test_scenario_24_what_could_not_be_written_is_not_replayed_and_the_client_may_try_again() -> None:
    scene = Bench()
    scene.disk.fail(DiskFault(Operation.WRITE, "*/numbers-0/*.log", error=errno.ENOSPC))
    scene.note("a", 1, "markers")
    assert scene.told == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
    assert scene.shard.numbers == {}
    scene.note("a", 2)
    scene.wait()
    assert scene.told == [ErrorCode.COORDINATOR_NOT_AVAILABLE, Noted(2)]


def test_losing_the_partition_tells_all_who_wait_to_look_elsewhere() -> None:
    scene = Bench()
    scene.note("a", MOVING, "markers")
    scene.runtime.run(lambda shard: shard.note_unless_moving("a", 1), scene.told.append, key="a")
    scene.runtime.unload()
    assert scene.told == [ErrorCode.NOT_COORDINATOR] * 2
    scene.wait()
    assert scene.told == [ErrorCode.NOT_COORDINATOR] * 2, "what commits after the shard is lost concerns it no more"


def test_scenario_36_a_shard_that_is_loading_or_lost_answers_so_and_decides_nothing() -> None:
    scene = Bench()
    runtime = scene.new_runtime()
    runtime.run(lambda shard: shard.note("a", 1), scene.told.append)
    assert scene.told == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    runtime.loaded()
    runtime.unload()
    runtime.run(lambda shard: shard.note("a", 1), scene.told.append)
    assert scene.told == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]
    assert runtime.shard.numbers == {}


def test_a_log_that_goes_offline_with_records_under_way_takes_the_shard_with_it() -> None:
    scene = Bench()
    scene.note("a", 1, "markers")
    scene.log.go_offline("the disk is gone")
    scene.wait()
    assert scene.told == [ErrorCode.NOT_COORDINATOR], (
        "whether the records survive is not known: nothing may rest on them"
    )
    scene.note("a", 2)
    assert scene.told[1:] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


# An id between its decision and the last marker.


def test_a_request_for_an_id_that_moves_on_is_decided_when_it_has() -> None:
    scene = Bench()
    scene.note("a", MOVING)
    scene.runtime.run(lambda shard: shard.note_unless_moving("a", 5), scene.told.append, key="a")
    scene.wait()
    assert scene.told == [Noted(MOVING)], "nobody is told CONCURRENT_TRANSACTIONS for a matter of milliseconds"
    scene.note("a", 0)
    scene.wait()
    assert scene.told == [Noted(MOVING), Noted(0), Noted(5)]
    assert scene.shard.numbers == {"a": 5}


def test_a_request_for_an_id_that_does_not_move_on_is_told_so_in_the_end() -> None:
    scene = Bench()
    scene.note("a", MOVING)
    scene.runtime.run(lambda shard: shard.note_unless_moving("a", 5), scene.told.append, key="a")
    scene.wait(MOVING_WAIT_MS / 1000 - 0.05)
    assert scene.told == [Noted(MOVING)]
    scene.wait(0.1)
    assert scene.told == [Noted(MOVING), ErrorCode.CONCURRENT_TRANSACTIONS]
    scene.note("a", 0)
    scene.wait()
    assert scene.shard.numbers == {"a": 0}, "what was answered must not be decided any more"


def test_being_asked_again_does_not_make_the_wait_longer() -> None:
    scene = Bench()
    scene.note("a", MOVING)
    scene.runtime.run(lambda shard: shard.note_unless_moving("a", 5), scene.told.append, key="a")
    for _ in range(3):
        scene.wait(0.3)
        scene.note("a", MOVING)
    scene.wait(0.15)
    assert scene.told == [Noted(MOVING)] * 4 + [ErrorCode.CONCURRENT_TRANSACTIONS]


def test_all_who_wait_for_an_id_are_decided_in_their_order_also_if_they_move_it_themselves() -> None:
    scene = Bench()
    scene.note("a", MOVING)
    for number in (1, 2, MOVING, 4, 5):
        scene.runtime.run(
            lambda shard, number=number: shard.note_unless_moving("a", number), scene.told.append, key="a"
        )
    scene.note("a", 0)
    scene.wait()
    assert scene.told == [Noted(number) for number in (MOVING, 0, 1, 2, MOVING)]
    scene.note("a", 3)
    scene.wait()
    assert scene.told[5:] == [Noted(number) for number in (3, 4, 5)]


def test_another_id_that_moves_on_concerns_nobody_else() -> None:
    scene = Bench()
    scene.note("a", MOVING)
    scene.runtime.run(lambda shard: shard.note_unless_moving("a", 5), scene.told.append, key="a")
    scene.note("b", 0)
    scene.wait()
    assert scene.told == [Noted(MOVING), Noted(0)]


def test_a_client_that_has_gone_is_not_decided_for() -> None:
    scene = Bench()
    scene.note("a", MOVING)
    waiting = scene.runtime.run(lambda shard: shard.note_unless_moving("a", 5), scene.told.append, key="a")
    assert waiting is not None
    waiting.abandoned()
    scene.note("a", 0)
    scene.wait()
    assert scene.shard.numbers == {"a": 0}


# Transactions in the shard's own partition.


def test_scenario_51_records_of_a_transaction_count_when_its_marker_is_appended() -> None:
    scene = Bench()
    scene.runtime.run(lambda shard: shard.note("a", 1), scene.told.append, producer=PRODUCER)
    assert scene.shard.numbers == {}
    scene.runtime.append_marker(PRODUCER, EndTransactionMarker(True, 0), transaction_version=0)
    assert scene.shard.numbers == {"a": 1}
    scene.runtime.run(lambda shard: shard.note("b", 1), scene.told.append, producer=PRODUCER)
    scene.runtime.append_marker(PRODUCER, EndTransactionMarker(False, 0), transaction_version=0)
    assert (scene.shard.numbers, scene.shard.pending) == ({"a": 1}, {})


def test_what_the_log_has_against_the_producer_is_what_the_producer_is_told() -> None:
    scene = Bench()
    scene.runtime.append_marker(ProducerIdentity(7, 3), EndTransactionMarker(False, 0), transaction_version=0)
    scene.runtime.run(lambda shard: shard.note("a", 1), scene.told.append, producer=PRODUCER)
    assert scene.told == [ErrorCode.INVALID_PRODUCER_EPOCH]


def test_a_decision_of_the_shard_itself_is_written_and_its_effects_wait_for_the_commit() -> None:
    scene = Bench()
    assert scene.runtime.apply(scene.shard.note("a", 1, "markers"))
    assert (scene.shard.numbers, scene.told) == ({"a": 1}, [])
    scene.wait()
    assert scene.told == ["markers"]
