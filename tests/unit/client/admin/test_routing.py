"""Every request goes where it belongs, follows whoever has moved, and is settled by the deadline of its call."""

from __future__ import annotations

import pytest

from semel.admin import ConfigResource, NewTopic, OffsetSpec
from semel.client.admin.topics import DESCRIBE_TOPIC
from semel.client.machine.admin.admin import NOT_FOUND_RETRIES_MAX
from semel.errors import AbortableError, AuthorizationFailed, ErrorCode, RetriableError, TimedOut, UnsupportedVersion
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from semel.wire.messages.describe_configs import DescribeConfigsResponse, DescribeConfigsResult
from semel.wire.messages.offset_fetch import OffsetFetchResponse, OffsetFetchResponseGroup
from tests.unit.client.admin.admin_cluster import AdminCluster, Administered, run
from tests.unit.client.machine.machine_bench import Request


def administered(**settings: object) -> Administered:
    return Administered(AdminCluster(topics={"orders": 3}), settings=dict(settings))


def test_what_changes_the_cluster_is_asked_of_the_controller() -> None:
    admin = administered()
    admin.cluster.controller_id = 3
    assert run(admin.topics.create("ledger", partitions=2)).partitions == 2
    assert admin.asked(ApiKey.CREATE_TOPICS) == [3]


def test_a_controller_that_moved_is_followed() -> None:
    admin = administered()
    run(admin.topics.create("first", partitions=1))
    admin.cluster.controller_id = 2
    run(admin.topics.create("second", partitions=1))
    assert admin.asked(ApiKey.CREATE_TOPICS) == [1, 1, 2]


def test_partitions_are_asked_of_their_leaders_together() -> None:
    admin = administered()
    times = {("orders", index): OffsetSpec.LATEST for index in range(3)}
    assert [found.offset for found in run(admin.partitions.list_offsets(times)).all().values()] == [0, 0, 0]
    assert sorted(admin.asked(ApiKey.LIST_OFFSETS)) == [1, 2, 3]


def test_a_leader_that_moved_is_followed_and_the_others_are_not_asked_again() -> None:
    admin = administered()
    moved = False

    def move_first(request: Request) -> object | None:
        nonlocal moved
        if not moved:
            moved = True
            admin.cluster.move_leader("orders", 1, 3)
        return admin.cluster._list_offsets(request)

    admin.cluster.answers[ApiKey.LIST_OFFSETS] = move_first
    times = {("orders", index): OffsetSpec.LATEST for index in range(3)}
    assert run(admin.partitions.list_offsets(times)).failed == {}
    requests = admin.bench.requests(ApiKey.LIST_OFFSETS)
    asked = [p.partition_index for r in requests for topic in r.message.topics for p in topic.partitions]
    assert sorted(asked) == [0, 1, 1, 2]
    assert requests[-1].node_id == 3


def test_a_broker_s_own_settings_are_asked_of_it_and_of_no_other() -> None:
    admin = administered()

    def described(request: Request) -> DescribeConfigsResponse:
        results = [DescribeConfigsResult(0, None, r.resource_type, r.resource_name) for r in request.message.resources]
        return DescribeConfigsResponse(results=results)

    admin.cluster.answers[ApiKey.DESCRIBE_CONFIGS] = described
    resources = [ConfigResource.broker(2), ConfigResource.broker(3), ConfigResource.broker(9)]
    results = run(admin.configs.describe_many(resources))
    assert sorted(admin.asked(ApiKey.DESCRIBE_CONFIGS)) == [2, 3]
    assert "there is no broker 9 in the cluster, only 1, 2, 3" in str(results.failed[ConfigResource.broker(9)])


def test_a_resource_that_is_no_broker_s_number_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="broker 'one': a broker is named by its number"):
        ConfigResource(ConfigResource.broker(1).type, "one")


def test_groups_are_asked_of_their_coordinators_and_a_coordinator_that_moved_is_followed() -> None:
    admin = administered()
    admin.cluster.coordinators.update(billing=2, reports=3)
    for group in ("billing", "reports"):
        run(admin.groups.list_offsets(group))
    admin.cluster.coordinators["billing"] = 1
    run(admin.groups.list_offsets("billing"))
    assert admin.asked(ApiKey.OFFSET_FETCH) == [2, 3, 2, 1]


def test_offsets_of_many_groups_are_one_request_to_each_coordinator() -> None:
    admin = administered()
    admin.cluster.coordinators.update({f"group-{number}": 2 + number % 2 for number in range(10)})
    assert len(run(admin.groups.list_offsets_many(list(admin.cluster.coordinators))).all()) == 10
    assert sorted(admin.asked(ApiKey.OFFSET_FETCH)) == [2, 3]


def test_a_coordinator_that_died_while_nobody_asked_is_looked_for_again() -> None:
    """It is no help to wait for the old one: another broker has taken over."""
    admin = administered()
    admin.cluster.coordinators["billing"] = 2
    run(admin.groups.list_offsets("billing"))
    for connection, node_id in tuple(admin.bench.connections.items()):
        if node_id == 2:
            admin.bench.drop_connection(connection)
    admin.bench.refusing.add(2)
    admin.cluster.coordinators["billing"] = 3
    before_ms = admin.bench.now_ms
    run(admin.groups.list_offsets("billing"))
    assert admin.asked(ApiKey.OFFSET_FETCH) == [2, 3]
    assert admin.bench.now_ms - before_ms < 2_000


def test_an_offset_that_is_not_stable_yet_is_asked_for_again() -> None:
    """Scenario 52."""
    admin = administered()
    codes = [ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NONE]
    admin.cluster.answers[ApiKey.OFFSET_FETCH] = lambda request: OffsetFetchResponse(
        groups=[OffsetFetchResponseGroup("billing", [], codes.pop(0))]
    )
    assert run(admin.groups.list_offsets("billing", require_stable=True)) == {}
    assert codes == []


def test_a_topic_that_is_not_known_yet_is_found_when_it_is() -> None:
    admin = administered()
    seen = 0

    def created_meanwhile(request: Request) -> object | None:
        nonlocal seen
        seen += any(topic.name == "new" for topic in request.message.topics or ())
        if seen == NOT_FOUND_RETRIES_MAX:
            admin.cluster.create_topic("new", 1)
        return admin.cluster._metadata(request)

    admin.cluster.answers[ApiKey.METADATA] = created_meanwhile
    assert run(admin.partitions.list_offsets({("new", 0): OffsetSpec.LATEST}))[TopicPartition("new", 0)].offset == 0
    seen = 0
    admin.cluster.logs.pop(TopicPartition("new", 0))
    assert run(admin.topics.describe("new")).name == "new"


def test_a_topic_that_does_not_exist_is_believed_within_a_second() -> None:
    admin = administered()
    results = run(admin.partitions.list_offsets({("nobody", 0): OffsetSpec.LATEST, ("orders", 7): OffsetSpec.LATEST}))
    assert {key: error.code for key, error in results.failed.items()} == {
        TopicPartition("nobody", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        TopicPartition("orders", 7): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert "orders has 3 partitions, counted from 0" in str(results.failed[TopicPartition("orders", 7)])
    with pytest.raises(RetriableError, match="no broker knows it"):
        run(admin.topics.describe("nobody"))
    assert admin.bench.now_ms < 2_500


def test_the_controller_is_believed_at_once_that_a_topic_does_not_exist() -> None:
    admin = administered()
    results = run(admin.topics.delete_many(["orders", "nobody"]))
    assert list(results.succeeded) == ["orders"]
    assert results.failed["nobody"].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert admin.asked(ApiKey.DELETE_TOPICS) == [1]


def test_a_topic_that_was_refused_once_is_looked_at_again_by_the_next_call() -> None:
    admin = administered()
    times = {("orders", 0): OffsetSpec.LATEST}
    admin.cluster.topic_errors["orders"] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with pytest.raises(AbortableError, match="TOPIC_AUTHORIZATION_FAILED: ListOffsets of orders-0"):
        run(admin.partitions.list_offsets(times)).all()
    admin.cluster.topic_errors.clear()
    assert run(admin.partitions.list_offsets(times))[TopicPartition("orders", 0)].offset == 0


def test_a_leader_that_nobody_knows_is_waited_for() -> None:
    admin = administered(default_api_timeout_ms=4_000)
    admin.cluster.leaders[TopicPartition("orders", 1)] = -1
    results = run(admin.partitions.list_offsets({("orders", 0): OffsetSpec.LATEST, ("orders", 1): OffsetSpec.LATEST}))
    assert list(results.succeeded) == [("orders", 0)]
    assert "no broker says where the leader of orders-1 is" in str(results.failed[TopicPartition("orders", 1)])


def test_what_only_one_topic_has_to_wait_for_does_not_hold_up_the_others() -> None:
    admin = administered()
    seen: list[list[str]] = []

    def throttled(request: Request) -> CreateTopicsResponse:
        names = [topic.name for topic in request.message.topics]
        seen.append(names)
        code = {"slow": ErrorCode.THROTTLING_QUOTA_EXCEEDED if len(seen) < 3 else ErrorCode.NONE}
        return CreateTopicsResponse(
            topics=[CreatableTopicResult(name, error_code=code.get(name, ErrorCode.NONE)) for name in names]
        )

    admin.cluster.answers[ApiKey.CREATE_TOPICS] = throttled
    assert run(admin.topics.create_many([NewTopic("slow", 1), NewTopic("quick", 1)])).failed == {}
    assert seen == [["slow", "quick"], ["slow"], ["slow"]]


def test_a_call_that_nobody_answers_ends_at_its_deadline_and_says_what_it_waited_for() -> None:
    admin = administered(default_api_timeout_ms=5_000)
    admin.bench.refusing.update({1, 2, 3})
    with pytest.raises(TimedOut, match=r"CreateTopics of topic 'a' .* default.api.timeout.ms \(5000 ms\)") as error:
        run(admin.topics.create("a", partitions=1))
    assert "no broker says where the controller is" in str(error.value)
    assert "may have been served" not in str(error.value)
    assert 5_000 <= admin.bench.now_ms < 5_100


def test_a_request_that_was_sent_may_have_been_served_and_its_late_answer_is_passed_over() -> None:
    admin = administered(default_api_timeout_ms=5_000)
    admin.bench.held = lambda request: request.api_key is ApiKey.CREATE_TOPICS
    with pytest.raises(TimedOut, match="no answer yet; it may have been served"):
        run(admin.topics.create("a", partitions=1))
    admin.bench.release()
    assert run(admin.topics.describe("a")).name == "a"


def test_a_lost_answer_is_asked_for_again_and_the_error_says_that_the_first_may_have_done_it() -> None:
    admin = administered()

    def lose_the_first(request: Request) -> object | None:
        response = admin.cluster._create_topics(request)
        if len(admin.asked(ApiKey.CREATE_TOPICS)) > 1:
            return response
        admin.bench.drop_connection(request.connection, turn=False)
        return None

    admin.cluster.answers[ApiKey.CREATE_TOPICS] = lose_the_first
    with pytest.raises(AbortableError, match="a try was not answered, and may have been served") as error:
        run(admin.topics.create("a", partitions=1))
    assert error.value.code is ErrorCode.TOPIC_ALREADY_EXISTS
    assert admin.asked(ApiKey.CREATE_TOPICS) == [1, 1]


def test_what_a_broker_is_too_old_for_is_said_and_the_client_goes_on() -> None:
    admin = administered()
    admin.cluster.versions[ApiKey.LIST_TRANSACTIONS] = (0, 0)
    with pytest.raises(UnsupportedVersion, match="serves versions 0 to 0 of ListTransactions"):
        run(admin.transactions.list(running_longer_than_ms=1_000))
    assert run(admin.transactions.list()) == ()


def test_a_value_that_the_wire_has_no_room_for_is_refused_and_the_client_goes_on() -> None:
    admin = administered()
    with pytest.raises(AbortableError, match=r"CreateTopics of topic 'a': .*num_partitions"):
        run(admin.topics.create("a", partitions=2**40))
    assert run(admin.topics.create("a", partitions=1)).name == "a"


def test_a_thing_that_the_answer_forgets_is_an_error() -> None:
    admin = administered()
    admin.cluster.answers[ApiKey.CREATE_TOPICS] = lambda request: CreateTopicsResponse()
    with pytest.raises(RetriableError, match="the broker's answer does not mention it"):
        run(admin.topics.create("a"))


def test_brokers_that_are_not_trusted_end_every_call_at_once() -> None:
    admin = administered()
    admin.machine.refused("node-1:9092: certificate verify failed")
    for _ in range(2):
        with pytest.raises(AuthorizationFailed, match="certificate verify failed"):
            run(admin.topics.list())
    assert admin.bench.now_ms == 0


def test_closing_settles_what_is_open() -> None:
    admin = administered()
    admin.bench.held = lambda request: request.api_key is ApiKey.METADATA
    promise = admin.machine.ask(DESCRIBE_TOPIC, ["orders"], 0.0)
    admin.bench.turn()
    assert admin.machine.open_calls == ["Metadata of topic 'orders'"]
    admin.machine.shut(admin.bench.now_ms)
    assert "closed before this was answered; a try was not answered" in str(promise.value.failed["orders"])


def test_nothing_to_ask_about_is_settled_at_once() -> None:
    admin = administered()
    assert run(admin.topics.describe_many([])).all() == {}
    assert admin.bench.now_ms == 0
