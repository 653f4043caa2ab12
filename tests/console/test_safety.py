"""The console changes nothing unless it may, and only for its own pages and the right name."""

from __future__ import annotations

import pytest

from semel import blocking
from semel.admin import AclBinding, AclOperation, AclResourceType
from semel.console.app import Rules
from semel.errors import KafkaError
from semel.testing import Broker
from tests.console.visitor import Visitor, running_console
from tools.console_scene import OPEN_ID
from tools.patience import PATIENCE_S


def test_every_answer_forbids_what_is_from_elsewhere(visitor: Visitor) -> None:
    for path in ("/", "/nowhere", "/static/console.js", "/topic?name=nowhere"):
        headers = visitor.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
    assert visitor.get("/").headers["cache-control"] == "no-store"


def test_the_session_is_for_this_site_only_and_not_for_scripts(visitor: Visitor) -> None:
    given = visitor.get("/").headers["set-cookie"].lower()
    assert "httponly" in given
    assert "samesite=strict" in given
    assert "set-cookie" not in visitor.get("/").headers


def test_a_name_that_is_not_this_machine_is_refused(visitor: Visitor) -> None:
    assert visitor.ask("GET", "/", headers={"Host": "evil.example:80"}).status == 421
    assert visitor.ask("GET", "/", headers={"Host": "localhost:80"}).status == 200
    assert visitor.ask("GET", "/", headers={"Host": "[::1]:80"}).status == 200


def test_a_console_that_only_looks_changes_nothing(visitor: Visitor, broker: Broker) -> None:
    preview = visitor.get("/group/reset", id="reports", to="earliest")
    assert "This console only looks" in preview.text
    assert '<button class="danger"' not in preview.body
    refused = visitor.post("/group/reset?id=reports&to=earliest", {})
    assert (refused.status, "--allow-changes" in refused.body) == (403, True)
    assert _offset(broker, "reports") == 5


def test_a_form_without_the_session_s_token_changes_nothing(changer: Visitor, broker: Broker) -> None:
    path = "/group/reset?id=reports&to=earliest"
    preview = changer.get(path)
    other = Visitor(changer.port)
    other.get("/")
    for answer in (
        changer.post(path, {}),
        changer.post(path, {"token": "0" * 64}),
        other.post(path, {"token": preview.token}),  # of another session
        Visitor(changer.port).post(path, {"token": preview.token}),  # without a session
        changer.post(path, {"token": preview.token}, Origin="http://evil.example"),
        changer.post(path, {"token": preview.token}, **{"Sec-Fetch-Site": "cross-site"}),
    ):
        assert answer.status == 403, answer.body
    assert _offset(broker, "reports") == 5
    assert changer.post(path, {"token": "x" * 100_000}).status == 413


def test_a_reset_is_shown_first_and_then_done(changer: Visitor, broker: Broker) -> None:
    path = "/group/reset?id=reports&topic=clicks&to=shift&value=-3"
    preview = changer.get(path)
    assert "clicks:0 5 2 3 offsets are read again" in preview.text
    assert "semel group reset-offsets reports --topic clicks --shift-by=-3" in preview.text
    assert _offset(broker, "reports") == 5
    done = changer.post(path, {"token": preview.token})
    assert (done.status, done.headers["location"]) == (303, "/group?id=reports")
    assert _offset(broker, "reports") == 2
    with blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.groups.alter_offsets("reports", {("clicks", index): 5 for index in range(6)}).all()


def test_a_group_with_members_is_not_reset_and_the_page_says_why(changer: Visitor) -> None:
    path = "/group/reset?id=billing&to=earliest"
    refused = changer.post(path, {"token": changer.get(path).token})
    assert refused.status == 409
    assert "A group is reset while it has no members" in refused.text


def test_a_transaction_is_aborted_after_its_name_was_typed(broker: Broker, changer: Visitor) -> None:
    name = "to be aborted"
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id=name) as producer:
        producer.begin()
        producer.send("audit.events", b"never", partition=0).result(PATIENCE_S)
        page = changer.get("/transaction", id=name)
        refused = changer.post("/transaction?id=to+be+aborted", {"token": page.token, "typed": OPEN_ID})
        assert (refused.status, "the name that was typed is another one" in refused.text) == (409, True)
        assert "Ongoing" in changer.get("/transaction", id=name).text
        done = changer.post("/transaction?id=to+be+aborted", {"token": page.token, "typed": name})
        assert done.status == 303
        assert "CompleteAbort" in changer.get(done.headers["location"]).text
        with pytest.raises(KafkaError):
            producer.commit()
        producer.close(timeout_ms=0)


def test_visitors_log_in_as_users_of_the_broker_and_see_what_these_may() -> None:
    rules = [
        AclBinding(AclResourceType.TOPIC, "orders", "User:alice", AclOperation.READ),
        AclBinding(AclResourceType.TOPIC, "orders", "User:alice", AclOperation.DESCRIBE),
        AclBinding(AclResourceType.CLUSTER, "kafka-cluster", "User:alice", AclOperation.DESCRIBE),
    ]
    users = {"alice": "wonder<land>", "admin": "boss"}
    with Broker(users=users, acls=rules, super_users="User:admin", num_partitions=1) as broker:
        with blocking.Admin(
            bootstrap_servers=broker.bootstrap_servers,
            **{**broker.client_security, "sasl_username": "admin", "sasl_password": "boss"},
        ) as admin:
            admin.topics.create("orders", partitions=1)
            admin.topics.create("secret", partitions=1)
        settings = {
            "bootstrap_servers": broker.bootstrap_servers,
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "SCRAM-SHA-256",
        }
        with running_console(settings, Rules(allow_changes=True)) as port:
            visitor = Visitor(port)
            sent = visitor.get("/topics")
            assert (sent.status, sent.headers["location"]) == (303, "/login?next=%2Ftopics")
            form = visitor.get(sent.headers["location"])
            before = visitor.cookie
            wrong = visitor.post("/login", {"token": form.token, "user": "alice", "password": "no"})
            assert "the broker does not take this user and password" in wrong.text
            given = {"token": wrong.token, "user": "alice", "password": "wonder<land>", "next": "//evil.example"}
            done = visitor.post("/login", given)
            assert (done.status, done.headers["location"]) == (303, "/")
            assert visitor.cookie != before, "a session that was known before the login is worth nothing after it"
            page = visitor.get("/topics")
            assert "orders" in page.text
            assert "secret" not in page.text
            assert "alice" in page.text
            assert "wonder" not in page.body
            assert visitor.get("/topic", name="secret").status in (403, 404)
            assert visitor.post("/logout", {"token": page.token}).status == 303
            assert visitor.get("/topics").status == 303


def test_a_broker_that_is_away_is_a_page_that_says_what_to_do() -> None:
    settings = {"bootstrap_servers": "127.0.0.1:1", "default_api_timeout_ms": "300"}
    with running_console(settings) as port:
        page = Visitor(port).get("/")
        assert page.status == 503
        assert "Is one running at 127.0.0.1:1?" in page.text


def _offset(broker: Broker, group: str) -> int:
    with blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        return next(iter(admin.groups.list_offsets(group, [("clicks", 0)]).values())).offset
