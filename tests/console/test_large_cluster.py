"""10,000 topics and a group of 1,000 members: what a page holds and asks does not grow with them.

Bounds are of rows, bytes and requests: they are what makes a page fast, and no busy machine changes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from semel.console.lags import COUNTS_MAX
from semel.console.paging import ROWS_MAX
from tests.console.large_cluster import EVERYONE, GROUPS, MEMBERS, TOPICS, LargeCluster
from tests.console.visitor import Visitor, running_console

PAGES = (
    "/",
    "/topics",
    "/topics?page=200",
    "/topics?q=topic-0077",
    "/topic?name=topic-00000",
    "/producers?topic=topic-00000&partition=0",
    "/groups",
    f"/group?id={EVERYONE}",
    f"/group?id={EVERYONE}&page=20&offsets=200",
    f"/group/reset?id={EVERYONE}&to=earliest",
    "/transactions",
    "/settings",
    "/access",
    "/cluster",
)
PAGE_BYTES_MAX = 128 * 1024
TABLES_MAX = 3
# Beside the counts of lag: each kind of question once, and the three kinds of offsets.
REQUESTS_MAX = 12
# All topics with leaders and replicas, the disks, or every partition that a group reads. They are asked every 20 s.
ABOUT_ALL = {"/", "/cluster", "/groups"}


@pytest.fixture
def cluster() -> LargeCluster:
    return LargeCluster()


@pytest.fixture
def visitor(cluster: LargeCluster) -> Iterator[Visitor]:
    with running_console({"bootstrap_servers": "model:9092"}, make_admin=cluster) as port:
        yield Visitor(port)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_of_a_large_cluster_is_small_and_asks_little(path: str, visitor: Visitor, cluster: LargeCluster) -> None:
    page = visitor.get(path)
    assert page.status == 200, page.text
    tables = re.findall(r"<tbody>(.*?)</tbody>", page.body, re.DOTALL)
    assert len(tables) <= TABLES_MAX
    assert max((table.count("<tr") for table in tables), default=0) <= ROWS_MAX
    assert len(page.body) <= PAGE_BYTES_MAX
    counts = cluster.requests.pop("Fetch", 0)
    assert counts <= COUNTS_MAX + ROWS_MAX
    assert cluster.requests.total() <= REQUESTS_MAX, cluster.requests
    if path not in ABOUT_ALL and EVERYONE not in path:
        # One list of names; everything else is about what the page shows.
        cluster.about["Metadata"] -= TOPICS
        assert max(cluster.about.values()) <= max(3 * ROWS_MAX, GROUPS, 500), cluster.about


def test_a_log_that_is_too_large_to_be_read_is_not_read_with_every_look(
    visitor: Visitor, cluster: LargeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semel.console.views.producers._READ_BYTES_MAX", 1)
    for _ in range(3):
        assert "they cannot be told from the log" in visitor.get("/producers", topic="topic-00000", partition=0).text
    assert cluster.requests["Fetch"] == 1


def test_the_filter_finds_one_among_all_topics_and_counts_them(visitor: Visitor) -> None:
    page = visitor.get("/topics", q="TOPIC-09999")
    assert "1 of 10 000" in page.text
    assert "topic-09999" in page.text
    assert "9 951 to 10 000 of 10 000" in visitor.get("/topics", page=200).text


def test_a_large_group_is_paged_by_member_and_by_offset(visitor: Visitor) -> None:
    page = visitor.get("/group", id=EVERYONE, page=20, offsets=3)
    assert "951 to 1 000 of 1 000" in page.text
    assert "101 to 150 of 10 000" in page.text
    assert "client-0999" in page.text
    assert "topic-00149:0" in page.text
    # The pages of one list leave the other where it is.
    assert 'href="/group?id=everyone&amp;offsets=3&amp;page=19"' in page.body
    assert 'href="/group?id=everyone&amp;page=20&amp;offsets=4"' in page.body


def test_the_lag_of_a_large_group_is_a_bound_first_and_exact_once_all_are_counted(
    visitor: Visitor, cluster: LargeCluster
) -> None:
    cluster.names = cluster.names[: 3 * COUNTS_MAX]
    seen = []
    for _ in range(4):
        cluster.clear_counts()
        seen.append((cluster_lag(visitor), cluster.requests["Fetch"]))
    assert seen == [
        ("≤ 60", COUNTS_MAX),
        ("≤ 60", COUNTS_MAX),
        ("60", COUNTS_MAX),
        ("60", 0),
    ]


def cluster_lag(visitor: Visitor) -> str:
    found = re.search(r"Lag ((?:≤\s)?[\d,]+) records", visitor.get("/group", id=EVERYONE).text)
    assert found is not None
    return " ".join(found[1].split())


def test_the_model_is_as_large_as_it_says(cluster: LargeCluster) -> None:
    assert len(cluster.topics.list()) == TOPICS
    assert len(cluster.groups.describe(EVERYONE).members) == MEMBERS
