"""What each page says of a small shop."""

from __future__ import annotations

import re
import shlex
from html import unescape
from html.parser import HTMLParser
from itertools import islice

import pytest

from semel import blocking
from semel.cli.main import make_parser
from semel.console.app import PAGES
from semel.testing import Broker, Cluster
from tests.console.visitor import Answer, Visitor, running_console
from tools.console_scene import HOSTILE_ID, OPEN_ID
from tools.patience import PATIENCE_S, wait_until


def test_the_overview_counts_and_names_the_oldest_transaction(visitor: Visitor) -> None:
    page = visitor.get("/")
    assert page.status == 200
    assert "Brokers 1 controller" in page.text
    assert "Topics 4 12 partitions" in page.text
    assert "Open transactions 1 oldest" in page.text
    assert f"Oldest open transaction {OPEN_ID} Ongoing" in page.text


def test_the_list_of_topics_has_groups_with_their_lag_and_what_is_held_up(visitor: Visitor) -> None:
    page = visitor.get("/topics")
    rows = {row.split()[0]: row for row in table_rows(page.body)}
    assert set(rows) == {"audit.events", "clicks", "orders", "payments"}
    assert "billing 0" in rows["orders"]
    assert rows["payments"].split()[3] == "7"  # four records of the open transaction, three behind it
    assert "__transaction_state" not in page.text
    assert "__transaction_state" in visitor.get("/topics", internal=1).text


def test_a_list_is_filtered_and_cut_on_the_server(visitor: Visitor) -> None:
    assert [row.split()[0] for row in table_rows(visitor.get("/topics", q="ORD").body)] == ["orders"]
    assert "No topic has zzz in its name" in visitor.get("/topics", q="zzz").text


def test_a_topic_shows_its_partitions_and_every_record_as_what_it_is(visitor: Visitor) -> None:
    page = visitor.get("/topic", name="payments", partition=0)
    assert "last stable offset 10; 7 held up" in page.body
    kinds = re.findall(r'class="is-(\w+)"', page.body)
    assert kinds[:7] == ["waiting"] * 3 + ["open"] * 4
    assert kinds.count("aborted") == 1
    assert "abort marker" in page.text
    assert "commit marker" in page.text


def test_a_partition_is_drawn_with_its_log_end_and_what_was_aborted(visitor: Visitor) -> None:
    page = visitor.get("/topic", name="payments")
    assert "last stable offset 10; 7 held up; log end 17; 1 aborted of those that were read" in page.body
    assert page.body.count("<title>aborted: 4 to 4</title>") == 2  # One record in each partition.
    assert "bar-behind" not in page.body
    searched = visitor.get("/topic", name="payments", partition=0, offset=3)
    assert searched.body.count("<title>aborted: 4 to 4</title>") == 1


def test_what_is_not_on_every_replica_is_behind_the_high_watermark() -> None:
    with Cluster(brokers=2, replica_lag_time_max_ms=3_600_000) as cluster:
        servers = {"bootstrap_servers": cluster.bootstrap_servers}
        with blocking.Admin(**servers) as admin:
            admin.topics.create("copied", partitions=1, replication_factor=2)
        wait_until(lambda: cluster.leader("copied", 0) is not None)
        leader = cluster.brokers[cluster.leader("copied", 0) or 0]
        leader.faults.fail("Fetch", "UNKNOWN_SERVER_ERROR", times=1_000_000)
        with blocking.Producer(**servers, acks=1, enable_idempotence=False) as producer:
            for _ in range(2):
                producer.send("copied", b"one").result(PATIENCE_S)
        with running_console(servers) as port:
            page = Visitor(port).get("/topic", name="copied")
        leader.faults.clear()
    assert "offsets 0 to 0; last stable offset 0; 0 held up; log end 2" in page.body
    assert 'class="bar-behind" x="0.0" y="5" width="1000.0"' in page.body
    # The leader tells its log end, and no record behind the high watermark.
    assert table_rows(page.body)[0].split()[1:5] == ["0", "0", "0", "2"]


def test_records_are_found_by_offset_time_and_key(visitor: Visitor) -> None:
    at_offset = visitor.get("/topic", name="orders", partition=1, offset=5)
    assert re.findall(r'data-key="r1-(\d+)"', at_offset.body)[0] == "5"
    by_key = visitor.get("/topic", name="orders", key="c-3")
    assert by_key.body.count('data-key="r') == 9  # of 60 orders, every seventh
    assert "c-3" in by_key.text
    late = visitor.get("/topic", name="orders", time="2199-01-01T00:00:00Z")
    assert "There is no record as late as that." in late.text
    early = visitor.get("/topic", name="orders", partition=1, time="2000-01-01T00:00:00Z")
    assert re.findall(r'data-key="r1-(\d+)"', early.body)[0] == "0"


def test_a_search_says_where_to_go_on(visitor: Visitor) -> None:
    first = visitor.get("/topic", name="clicks", partition=0, offset=0)
    assert "Go on from 50" in first.text
    rest = visitor.get("/topic", name="clicks", partition=0, offset=50)
    assert rest.body.count('data-key="r') == 10
    assert "Go on from" not in rest.text


def test_bytes_are_hexadecimal_and_json_is_indented(visitor: Visitor) -> None:
    assert "00 01 02 03" in visitor.get("/topic", name="audit.events").text
    assert '"customer": "c-1"' in visitor.get("/topic", name="orders").text


def test_records_of_internal_topics_are_decoded(visitor: Visitor) -> None:
    coordinator_partition = re.search(r"__consumer_offsets:(\d+)", visitor.get("/transaction", id="payments-1").text)
    assert coordinator_partition is not None
    assert (
        '"group": "payments"'
        in visitor.get("/topic", name="__consumer_offsets", partition=coordinator_partition[1]).text
    )


def test_the_groups_have_state_members_and_lag(visitor: Visitor) -> None:
    rows = {row.split()[0]: row for row in table_rows(visitor.get("/groups").body)}
    assert "Stable classic 1 0 orders" in rows["billing"]
    assert "Empty" in rows["reports"]
    assert [row.split()[0] for row in table_rows(visitor.get("/groups", state="Stable").body)] == ["billing"]


def test_a_group_shows_offsets_members_and_a_form_to_reset(visitor: Visitor) -> None:
    page = visitor.get("/group", id="billing")
    assert "Lag 0 records for read_committed" in page.text
    assert "billing-worker-1" in page.text
    assert 'action="/group/reset"' in page.body


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_tells_its_generations_from_the_log(visitor: Visitor, broker: Broker, protocol: str) -> None:
    group = f"generations-{protocol}"
    for number in range(2):
        with blocking.Consumer(
            bootstrap_servers=broker.bootstrap_servers,
            group_id=group,
            group_protocol=protocol,
            client_id=f"reader-{number}",
            auto_offset_reset="earliest",
        ) as consumer:
            consumer.subscribe(["clicks"])

            def has_joined(consumer: blocking.Consumer = consumer) -> bool:
                consumer.poll(50)
                return len(consumer.assignment) == 6

            wait_until(has_joined)
            consumer.commit()
    page = visitor.get("/group", id=group)
    section = page.body.partition('id="generations-title"')[2]
    rows = table_rows(section)
    assert "All there ever were" in page.text
    assert "generations over time" in section
    if protocol == "classic":
        # The newest first: each reader has its generation, and leaves the group empty.
        assert [row.split()[1:3] for row in rows] == [
            ["empty", "4"], ["rebalanced", "3"], ["empty", "2"], ["rebalanced", "1"],
        ]  # fmt: skip
        assert "range reader-1 leader clicks:0 clicks:1 clicks:2 clicks:3 clicks:4 clicks:5" in rows[1]
        assert int(rows[0].split()[-1]) >= 6  # What reader-1 has committed.
    else:
        assert "group epoch 1" in " ".join(rows)
        assert any(" assigned " in row and "clicks:5" in row for row in rows)
        assert "reader-1" in " ".join(rows)
    with blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.groups.delete(group)


def test_a_group_without_members_says_that_the_log_has_no_generation(visitor: Visitor) -> None:
    assert "no member has joined it" in visitor.get("/group", id="reports").text


def test_lag_counts_what_a_reader_gets_and_reaches_0(visitor: Visitor, broker: Broker) -> None:
    """From offset 4 on there are an aborted record, five markers and three records."""
    with blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.groups.alter_offsets("ledger", {("payments", 1): 4}).all()
        admin.groups.alter_offsets("ledger at the end", {("payments", 1): 11}).all()
    assert "payments:1 4 12 3 no member" in visitor.get("/group", id="ledger").text
    assert "Lag 3 records for read_committed" in visitor.get("/group", id="ledger").text
    # Only the marker is left.
    assert "payments:1 11 12 0 no member" in visitor.get("/group", id="ledger at the end").text
    with blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.groups.delete_many(["ledger", "ledger at the end"]).all()


def test_the_open_transaction_stands_at_the_top_with_its_age_and_what_it_holds_up(visitor: Visitor) -> None:
    rows = table_rows(visitor.get("/transactions").body)
    assert rows[0].startswith(f"{OPEN_ID} Ongoing")
    assert re.search(r"(ms|s|min) 7 payments:0", rows[0])
    only = table_rows(visitor.get("/transactions", state="open").body)
    assert [row.split()[0] for row in only] == [OPEN_ID]
    assert table_rows(visitor.get("/transactions", longer=3600).body) == []


def test_one_transactional_id_tells_its_life_and_what_waits_for_it(visitor: Visitor) -> None:
    page = visitor.get("/transaction", id=OPEN_ID)
    assert "read_committed readers stand at 10, the end is 17: 7 offsets wait" in page.text
    assert "EndTxn awaited" in page.text
    assert f"semel txn terminate {OPEN_ID}" in page.text
    ended = visitor.get("/transaction", id="payments-1")
    assert "5 transactions, all there ever were" in ended.text
    assert re.findall(r"(committed|aborted) epoch (\d)", ended.text) == [
        ("committed", "4"), ("committed", "3"), ("aborted", "2"), ("committed", "1"), ("committed", "0"),
    ]  # fmt: skip
    assert "CompleteAbort" in ended.text
    assert ended.text.count("payments:0") == ended.text.count("payments:1") == 5


def test_an_open_transaction_names_the_groups_that_read_what_it_holds_up(visitor: Visitor, broker: Broker) -> None:
    with blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.groups.alter_offsets("ledger", {("payments", 0): 4}).all()
        admin.groups.alter_offsets("other partition", {("payments", 1): 4}).all()

        def told() -> bool:
            page = visitor.get("/transaction", id=OPEN_ID)
            return "7 offsets wait. Read by ledger ; which of them" in page.text

        wait_until(told)  # The answer about all groups is good for some seconds.
        admin.groups.delete_many(["ledger", "other partition"]).all()


def test_the_producers_of_a_partition_have_their_open_transaction(visitor: Visitor) -> None:
    page = visitor.get("/producers", topic="payments", partition=0)
    row = next(row for row in table_rows(page.body) if OPEN_ID in row)
    assert row.endswith(" 10")
    assert "0 at 10 1 at 11 2 at 12 3 at 13" in row


def test_a_producer_has_its_last_five_batches_from_the_log(visitor: Visitor, broker: Broker) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for _ in range(6):
            producer.send("window", b"one", partition=0).result(PATIENCE_S)
        page = visitor.get("/producers", topic="window", partition=0)
    with blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.topics.delete("window")
    assert "1 at 1 2 at 2 3 at 3 4 at 4 5 at 5" in page.text
    assert " 0 at 0 " not in page.text


def test_a_partition_that_is_too_large_to_be_read_says_so(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semel.console.views.producers._READ_BYTES_MAX", 100)
    page = visitor.get("/producers", topic="clicks", partition=5)
    assert "they cannot be told from the log: the last 5,000 offsets are more than" in page.text
    assert "semel producer list clicks:5 --window" in page.text


def test_settings_say_where_they_come_from(visitor: Visitor) -> None:
    changed = [row for row in table_rows(visitor.get("/settings").body) if row.startswith("num.partitions")]
    assert changed == ["num.partitions 2 static broker no"]
    every = table_rows(visitor.get("/settings", topic="orders", all=1).body)
    assert "retention.ms 604800000 default yes" in every


def test_a_cluster_without_users_and_rules_says_so(visitor: Visitor) -> None:
    page = visitor.get("/access")
    assert "This cluster has no authorizer" in page.text
    assert "No users" in page.text


def test_the_cluster_has_its_brokers_and_features(visitor: Visitor) -> None:
    page = visitor.get("/cluster")
    assert "controller" in page.text
    assert "transaction.version 2" in page.text
    assert "every replica is in sync" in page.text


def test_what_is_not_there_is_a_page_that_says_so(visitor: Visitor) -> None:
    for path, status, said in (
        ("/topic?name=nowhere", 404, "It is not there"),
        ("/group?id=nowhere", 404, "It is not there"),
        ("/transaction?id=nowhere", 404, "It is not there"),
        ("/topic", 400, "this address lacks its name"),
        ("/topic?name=orders&offset=-1", 400, "a number from 0 on"),
        ("/topic?name=orders&time=yesterday", 400, "is no time"),
        ("/topic?name=orders&partition=77", 200, "There is no partition 77"),
        ("/group/reset?id=reports&to=elsewhere", 400, "it is one of"),
        ("/group/reset?id=reports&to=offset&value=9999", 400, "has the offsets"),
        ("/nowhere", 404, "There is no page /nowhere"),
    ):
        page = visitor.get(path)
        assert (page.status, said in page.text) == (status, True), (path, page.text)


def test_a_page_is_its_own_event_stream_and_sends_what_changes(visitor: Visitor, broker: Broker) -> None:
    with visitor.events("/topic?name=audit.events&follow=1") as events:
        assert "live-1" not in next(events)
        with blocking.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("audit.events", b"live-1").result(PATIENCE_S)
        # One event in a second at most: so many are the time that a test waits.
        assert any("live-1" in event for event in islice(events, int(PATIENCE_S)))


@pytest.mark.parametrize("path", sorted(set(PAGES) - {"/pipeline"}))  # Its shop has none; test_pipelines.py has.
def test_every_page_is_whole_html_with_headings_and_labels(visitor: Visitor, path: str) -> None:
    query = {
        "/topic": {"name": "orders"},
        "/producers": {"topic": "orders", "partition": 0},
        "/group": {"id": "billing"},
        "/group/reset": {"id": "reports"},
        "/transaction": {"id": OPEN_ID},
        "/scene": {"name": "lost-answer"},
    }
    check_html(visitor.get(path, **query.get(path, {})))


def check_html(page: Answer) -> None:
    assert page.status == 200
    assert page.body.count("<h1") == 1
    assert "<main" in page.body
    assert 'lang="en"' in page.body
    # Every field has a label around it, every column its header, and no style or script stands in the page.
    for field in re.finditer(r"<(?:input|select)\b[^>]*>", page.body):
        if 'type="hidden"' not in field[0]:
            before = page.body[: field.start()]
            assert before.rfind("<label") > before.rfind("</label>"), field[0]
    assert page.body.count("<table") == page.body.count("<thead")
    _Strict().feed(page.body)


def test_a_hostile_name_is_text_on_every_page_that_has_it(visitor: Visitor) -> None:
    for page in (
        visitor.get("/groups"),
        visitor.get("/group", id=HOSTILE_ID),
        visitor.get("/group/reset", id=HOSTILE_ID),
        visitor.get("/transactions"),
        visitor.get("/transaction", id=HOSTILE_ID),
        visitor.get("/topics"),
        visitor.get("/topic", name="clicks"),
        visitor.get("/topics", q=HOSTILE_ID),
        visitor.get("/topic", name=HOSTILE_ID),
    ):
        assert "<img src=x" not in page.body
        assert "&lt;img src=x onerror" in page.body
    records = visitor.get("/topic", name="audit.events")
    assert "<script>alert" not in records.body
    assert "&lt;script&gt;alert" in records.body
    assert "&lt;b&gt;web&lt;/b&gt;" in records.body


@pytest.mark.parametrize(
    ("path", "offered"),
    [
        ("/", "cluster info"),
        ("/topics?internal=1", "topic list --internal"),
        ("/topic?name=orders", "consume orders --show-control --isolation read_uncommitted --from beginning"),
        (
            "/topic?name=orders&partition=1&offset=5",
            "consume orders --show-control --isolation read_uncommitted --partition 1 --from 5",
        ),
        (
            "/topic?name=orders&time=2026-01-31T12:00:00Z",
            "consume orders --show-control --isolation read_uncommitted --from 2026-01-31T12:00:00.000Z",
        ),
        ("/topic?name=orders&follow=1", "consume orders --show-control --isolation read_uncommitted --follow"),
        ("/producers?topic=payments&partition=0", "producer list payments:0 --window"),
        ("/groups?state=Stable", "group list --state Stable"),
        ("/group?id=billing", "group describe billing"),
        ("/group?id=billing", "group trace billing"),
        (
            "/group/reset?id=reports&topic=clicks&to=earliest",
            "group reset-offsets reports --topic clicks --to-earliest",
        ),
        ("/transactions?state=open&longer=60", "txn list --state Ongoing --longer-than 60000"),
        ("/transactions", "txn find-hanging"),
        (f"/transaction?id={OPEN_ID}", f"txn trace {OPEN_ID}"),
        (f"/transaction?id={OPEN_ID}", f"txn terminate {OPEN_ID}"),
        ("/settings?topic=orders&all=1", "config describe --topic orders --all"),
        ("/access", "user list"),
        ("/cluster", "cluster status"),
        ("/lab?lang=zh", "lab --lang zh"),
        ("/scene?name=lost-answer&protection=off", "lab --scene 1 --without-protection"),
    ],
)
def test_what_a_page_shows_and_does_is_there_as_a_command(visitor: Visitor, path: str, offered: str) -> None:
    assert f"semel {offered}" in commands_of(visitor.get(path))


def test_a_name_that_begins_with_a_dash_is_no_option_of_a_command() -> None:
    with (
        Broker(num_partitions=1) as broker,
        running_console({"bootstrap_servers": broker.bootstrap_servers}) as port,
        blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
        blocking.Producer(
            bootstrap_servers=broker.bootstrap_servers, transactional_id="-billing", transaction_timeout_ms=900_000
        ) as producer,
    ):
        producer.begin()
        producer.send("-orders", b"one").result(PATIENCE_S)
        admin.groups.alter_offsets("-readers", {("-orders", 0): 0}).all()
        for path, count in (
            ("/group?id=-readers", 2),
            ("/group/reset?id=-readers&topic=-orders&to=shift&value=-1", 1),
            ("/transaction?id=-billing", 2),
            ("/topic?name=-orders", 1),
            ("/settings?topic=-orders", 1),
            ("/producers?topic=-orders&partition=0", 1),
        ):
            assert len(commands_of(Visitor(port).get(path))) == count, path
        producer.close(timeout_ms=0)


def commands_of(page: Answer) -> list[str]:
    """The commands that a page offers to copy. Each is one that the command line takes."""
    assert page.status == 200, page.text
    found = [unescape(line) for line in re.findall(r'data-copy="([^"]*)"', page.body)]
    for line in found:
        first, *words = shlex.split(line)
        assert first == "semel"
        options = vars(make_parser(words[:1]).parse_args(words))
        # What is shown is named in it, and has not become an option.
        for name in ("-orders", "-billing", "-readers"):
            assert (name in shlex.join(words)) == any(name in str(value) for value in options.values()), line
    return found


def test_a_command_to_copy_keeps_a_hostile_name_one_word(visitor: Visitor) -> None:
    page = visitor.get("/transaction", id=HOSTILE_ID)
    found = re.search(r'data-copy="([^"]*)"', page.body)
    assert found is not None
    assert shlex.split(unescape(found[1])) == ["semel", "txn", "trace", HOSTILE_ID]


class _Strict(HTMLParser):
    """Refuses what the policy of the pages forbids, and addresses of other sites."""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        named = dict(attributes)
        assert tag != "style"
        assert tag != "script" or str(named.get("src")).startswith("/static/")
        assert not [name for name in named if name == "style" or name.startswith("on")], attributes
        for name in ("href", "src", "action"):
            assert str(named.get(name, "/")).startswith(("/", "#")), attributes


def table_rows(body: str) -> list[str]:
    """The rows of the first table, as a reader sees them."""
    table = body.partition("<tbody>")[2].partition("</tbody>")[0]
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", table, re.DOTALL)
    return [" ".join(unescape(re.sub(r"<[^>]*>", " ", row)).split()) for row in rows]
