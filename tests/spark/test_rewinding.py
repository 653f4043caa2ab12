"""A pipeline that is rewound: what is read again is written once more, within a generation once, whatever stops."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from semel.errors import StateError
from semel.spark import PipelineError, Refused, pipeline
from semel.spark.rewinding import Rewind
from semel.spark.sink.sink import StepHook, no_step_hook
from semel.spark.sinks.side_sinks import SideSinks
from semel.spark.starting import Start
from semel.testing import Broker
from tests.spark.test_sinks import POINTS, SIZE, PlannedBatches, Stopped, World, stops_at
from tests.spark.topics import create, fill, group_offsets

# Of the seventy records that the topic gets, those of the one partition that is read.
IN_PARTITION = 40


class RewoundWorld(World):
    """``checkpoint`` is that of the generation; ``named`` is what the user calls the checkpoint."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        super().__init__(broker, folder)
        self.named = self.checkpoint

    def start(self, reached: StepHook = no_step_hook, **options: Any) -> Start:
        return super().start(reached, **options).in_generation(self.named)

    def rewind(self, to: str, *, is_confirmed: bool = True) -> Rewind:
        found = self.start().rewind(self.named, to, is_confirmed=is_confirmed)
        if found.is_done:
            self.named.generations.append(found.generation)
            self.checkpoint = PlannedBatches(f"query-{found.generation}", begin=found.moves[0].target)
        return found


@pytest.fixture
def world(broker: Broker, tmp_path: Path) -> RewoundWorld:
    create(broker, "in")
    fill(broker, "in", range(70))
    found = RewoundWorld(broker, tmp_path)
    found.run(found.driver(), 3)
    return found


def twice_from(begin: int, world: World) -> list[int]:
    return sorted([*range(world.checkpoint.ends[-1]), *range(begin, 3 * SIZE)])


def test_without_a_yes_a_rewind_says_what_it_would_do_and_changes_nothing(world: RewoundWorld) -> None:
    told = world.rewind('{"in": {"0": 4}}', is_confirmed=False)
    assert (told.read_again, told.left_out, told.generation, told.is_done) == (2 * SIZE, 0, 1, False)
    (warning,) = told.warnings
    assert warning.startswith("what 8 offsets gave is written again to sqlite:rows, files:rows: append keeps both")
    assert group_offsets(world.broker, "jobs", "in")[0] == 3 * SIZE
    world.run(world.driver(), 4)
    world.assert_everything_is_there_once()


def test_a_driver_that_stops_at_any_step_after_a_rewind_writes_once_more_and_no_more(world: RewoundWorld) -> None:
    assert world.rewind('{"in": {"0": 4}}').is_done
    assert group_offsets(world.broker, "jobs", "in")[0] == 4
    for number, point in enumerate(POINTS):
        with pytest.raises((Stopped, StateError)):
            world.run(world.driver(stops_at(point, number)), number + 1)
    world.run(world.driver(), len(POINTS) + 1)
    expected = twice_from(4, world)
    assert (world.in_sqlite(), world.in_files()) == (expected, expected)
    assert group_offsets(world.broker, "jobs", "in")[0] == world.checkpoint.ends[-1]


class LinesOfAllGenerations(SideSinks):
    """A planted bug: the ledger's lines are those of the generation before."""

    def prepare(self, *arguments: Any, **options: Any) -> None:
        super().prepare(*arguments, **{**options, "generation": 0})


def test_the_planted_bug_of_ledgers_without_generations_is_found(world: RewoundWorld) -> None:
    world.rewind('{"in": {"0": 4}}')
    with pytest.raises((Refused, PipelineError)):
        world.run(world.driver(also=LinesOfAllGenerations(world.sinks())), 2)


@pytest.mark.parametrize("point", ["begun", "sqlite computed", "files staged"])
def test_a_zombie_of_the_generation_before_changes_nothing_after_the_rewind(world: RewoundWorld, point: str) -> None:
    def is_rewound(name: str, number: int) -> None:
        if (name, number) == (point, 3):
            world.rewind("earliest")
            world.run(world.driver(), 4)

    zombie = world.driver(is_rewound)
    with pytest.raises(PipelineError):
        world.run(zombie, 5)
    # The zombie's fourth batch is in the table if it was committed before the rewind, and then once.
    ahead = range(3 * SIZE, 4 * SIZE) if point == "files staged" else range(0)
    assert Counter(world.in_sqlite()) == Counter([*range(3 * SIZE), *range(4 * SIZE), *ahead])
    assert Counter(world.in_files()) == Counter([*range(3 * SIZE), *range(4 * SIZE)])


def test_generations_follow_each_other_and_may_go_forward(world: RewoundWorld) -> None:
    world.rewind("earliest")
    world.run(world.driver(), 1)
    told = world.rewind('{"in": {"0": 32}}')
    assert (told.generation, told.read_again, told.left_out) == (2, 0, 32 - SIZE)
    assert "28 offsets are left out" in told.warnings[0]
    world.run(world.driver(), 1)
    assert world.in_sqlite() == sorted([*range(3 * SIZE), *range(SIZE), *range(32, 32 + SIZE)])


def test_a_start_that_read_the_generation_before_a_rewind_is_refused(world: RewoundWorld) -> None:
    before = world.start()
    world.rewind("earliest")
    with pytest.raises(Refused, match="its group is in generation 1, and this start is of generation 0"):
        before.begin(world.named)
    assert world.start().generation == 1


def test_where_offsets_have_expired_the_last_generation_with_a_checkpoint_counts(world: RewoundWorld) -> None:
    world.named.generations.append(3)
    unread = replace(world.start(), plan=world.plan("a-new-group"))
    assert unread.in_generation(world.named).generation == 3


@pytest.mark.parametrize(
    ("to", "message"),
    [
        ("yesterday", "'yesterday' is no place to rewind to: write earliest"),
        ('{"in": {"0": 41}}', "in-0 has offsets from 0 up to 40, and not 41"),
        ('{"in": {"1": 0}}', "must name every partition that is read"),
        ('{"in": 3}', "neither a known word nor like"),
    ],
)
def test_a_place_that_is_none_is_refused(world: RewoundWorld, to: str, message: str) -> None:
    with pytest.raises(Refused, match=message):
        world.rewind(to)
    assert group_offsets(world.broker, "jobs", "in")[0] == 3 * SIZE


def test_a_time_is_the_first_record_that_is_as_late(world: RewoundWorld) -> None:
    assert world.rewind("2001-01-01T00:00:00", is_confirmed=False).read_again == 3 * SIZE
    assert world.rewind("2999-01-01T00:00:00Z", is_confirmed=False).left_out == IN_PARTITION - 3 * SIZE
    assert world.rewind("0", is_confirmed=False).read_again == 3 * SIZE


def test_a_sink_of_a_later_generation_than_the_group_is_refused(world: RewoundWorld) -> None:
    """The group's offsets are from a backup of before the rewind."""
    with sqlite3.connect(world.database) as connection:
        ((text,),) = connection.execute("SELECT batch FROM semel_ledger").fetchall()
        later = json.dumps({**json.loads(text), "generation": 1})
        connection.execute("UPDATE semel_ledger SET batch = ?", (later,))
    with pytest.raises(Refused, match="of generation 1, and the group is in generation 0"):
        world.driver()


def test_an_argument_that_would_rewind_at_every_restart_is_refused_with_the_way_to_say_it_once() -> None:
    df: Any = None
    with pytest.raises(Refused, match=r"rewind\(to\) of the pipeline, or semel pipeline rewind FILE --to PLACE"):
        pipeline(df, topic="out", transactional_id="jobs", servers="x:1", checkpoint="c", restart_from="earliest")
