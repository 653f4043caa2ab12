"""What a pipeline leaves on the wire, on its page. The steps are those of a driver; a real one is in tests/spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from semel import blocking
from semel.client.values import OffsetAndMetadata
from semel.testing import Broker
from semel.types import TopicPartition
from tests.console.test_pages import check_html, table_rows
from tests.console.visitor import Visitor, running_console
from tools.console_scene import run_pipeline
from tools.patience import PATIENCE_S

OWNER = "<b>totals</b>"
GROUP = "totals-job"


@pytest.fixture(scope="module")
def visitor() -> Iterator[Visitor]:
    with Broker(num_partitions=1) as broker:
        settings = {"bootstrap_servers": broker.bootstrap_servers}
        with blocking.Admin(**settings) as admin, blocking.Producer(**settings) as producer:
            admin.topics.create("in", partitions=1)
            for value in range(12):
                producer.send("in", b"%d" % value).result(PATIENCE_S)
            admin.groups.alter_offsets("consumers", {("in", 0): OffsetAndMetadata(3, "host-7")}).all()
        run_pipeline(TopicPartition("in", 0), owner=OWNER, group=GROUP, **settings)
        with running_console(settings) as port:
            yield Visitor(port)


def test_pipelines_are_the_groups_with_a_note(visitor: Visitor) -> None:
    page = visitor.get("/pipelines")
    (row,) = table_rows(page.body)
    assert row == f"{OWNER} {GROUP} 1 0 CompleteCommit 3 in"
    assert "<b>totals" not in page.body
    assert "No pipeline fits" in visitor.get("/pipelines", q="elsewhere").text
    assert len(table_rows(visitor.get("/pipelines", q="TOTALS").body)) == 1


def test_each_attempt_has_its_batch_its_outcome_and_what_it_read_and_wrote(visitor: Visitor) -> None:
    page = visitor.get("/pipeline", group=GROUP)
    check_html(page)
    rows = [row.split() for row in table_rows(page.body)]
    assert [(row[0], row[1], row[-3:]) for row in rows[:-1]] == [
        ("1", "committed", ["4", "totals", "2"]),
        ("1", "aborted", ["4", "totals", "2"]),
        ("0", "committed", ["5", "totals", "3"]),  # The record of another producer between them is not its own.
    ]
    assert (rows[-1][:2], rows[-1][-2:]) == (["start", "committed"], ["\N{EN DASH}", "none"])
    assert "Last batch 1 that was committed" in page.text
    assert "Aborted attempts 1 of 4 in the log" in page.text
    assert "Lag 3 records" in page.text
    assert "other sinks: sqlite:totals" in page.text
    assert "in:0 9 1 12 3" in page.text
    assert "<b>totals" not in page.body
    assert "a kill, an error and a timeout leave the same in the log" in page.text


def test_a_group_without_notes_is_no_pipeline(visitor: Visitor) -> None:
    page = visitor.get("/pipeline", group="consumers")
    assert (page.status, "no pipeline has left a note" in page.text) == (400, True)
