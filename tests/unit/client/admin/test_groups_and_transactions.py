"""Calls that take more than one request: lists of all brokers, groups of two protocols, transactions that hang."""

from __future__ import annotations

from typing import Any

import pytest

from semel.admin import HangingTransaction
from semel.client.admin.hanging import candidates
from semel.client.admin.partitions import ProducerState as Producer
from semel.errors import AbortableError, ErrorCode, TimedOut
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolPartitions,
    ConsumerProtocolSubscription,
    encode_assignment,
    encode_subscription,
)
from semel.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from semel.wire.messages.describe_producers import ProducerState
from semel.wire.messages.describe_transactions import DescribeTransactionsResponse, TopicData, TransactionState
from tests.unit.client.admin.admin_cluster import NOW_MS, AdminCluster, Administered, run

HOUR_MS = 3_600_000
ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def administered(**settings: Any) -> Administered:
    return Administered(AdminCluster(topics={"orders": 3}), settings=settings)


# Lists of all brokers


def test_groups_of_all_coordinators_are_one_list() -> None:
    admin = administered()
    admin.cluster.coordinators.update(a=3, b=1, c=2)
    admin.cluster.classic_groups.update("ac")
    admin.cluster.consumer_groups.add("b")
    assert [(group.group_id, group.type) for group in run(admin.groups.list())] == [
        ("a", "classic"),
        ("b", "consumer"),
        ("c", "classic"),
    ]
    assert sorted(admin.asked(ApiKey.LIST_GROUPS)) == [1, 2, 3]


def test_a_list_with_a_hole_is_an_error() -> None:
    admin = administered(default_api_timeout_ms=3_000)
    admin.bench.refusing.add(3)
    with pytest.raises(TimedOut, match=r"ListGroups of broker 3 .* broker 3 could not be connected to"):
        run(admin.groups.list())


# Groups of two protocols


def test_each_group_is_described_in_its_own_protocol() -> None:
    admin = administered()
    admin.cluster.coordinators.update(old=2, new=3)
    admin.cluster.classic_groups.add("old")
    admin.cluster.consumer_groups.add("new")
    results = run(admin.groups.describe_many(["old", "new", "none"]))
    assert {name: group.type for name, group in results.succeeded.items()} == {"old": "classic", "new": "consumer"}
    assert list(results) == ["old", "new", "none"]
    with pytest.raises(AbortableError, match="DescribeGroups of group 'none': there is no such group"):
        results["none"]


def test_a_broker_without_the_newer_protocol_is_asked_in_the_older() -> None:
    admin = administered()
    del admin.cluster.versions[ApiKey.CONSUMER_GROUP_DESCRIBE]
    admin.cluster.classic_groups.add("old")
    assert run(admin.groups.describe("old")).type == "classic"


def described(admin: Administered, protocol_type: str, state: str, *members: DescribedGroupMember) -> None:
    group = DescribedGroup(
        group_id="old",
        group_state=state,
        protocol_type=protocol_type,
        protocol_data="range",
        members=list(members),
    )
    admin.cluster.answers[ApiKey.DESCRIBE_GROUPS] = lambda request: DescribeGroupsResponse(groups=[group])


def test_a_group_that_an_older_broker_calls_dead_does_not_exist() -> None:
    admin = administered()
    described(admin, "", "Dead")
    with pytest.raises(AbortableError, match="there is no such group") as error:
        run(admin.groups.describe("old"))
    assert error.value.code is ErrorCode.GROUP_ID_NOT_FOUND


def test_what_a_classic_member_reads_is_read_out_of_its_bytes() -> None:
    admin = administered()
    metadata = encode_subscription(ConsumerProtocolSubscription(["orders"]))
    assignment = encode_assignment(ConsumerProtocolAssignment([ConsumerProtocolPartitions("orders", [2, 0])]))
    described(admin, "consumer", "Stable", DescribedGroupMember("m-1", "i-1", "app", "/host", metadata, assignment))
    (member,) = run(admin.groups.describe("old")).members
    assert (member.member_id, member.group_instance_id, member.client_id) == ("m-1", "i-1", "app")
    assert member.assignment == (("orders", 0), ("orders", 2))
    assert member.subscribed_topics == ("orders",)


@pytest.mark.parametrize("protocol_type", ["connect", "consumer"])
def test_bytes_that_are_no_consumer_s_are_left_alone(protocol_type: str) -> None:
    admin = administered()
    described(admin, protocol_type, "Stable", DescribedGroupMember("m-1", None, "app", "/host", b"\x00\x01x", b"\xff"))
    (member,) = run(admin.groups.describe("old")).members
    assert (member.assignment, member.subscribed_topics) == ((), ())


# Transactions that hang


def open_since(age_ms: int, producer_id: int = 7, start_offset: int = 4) -> ProducerState:
    return ProducerState(producer_id, 2, 5, NOW_MS - age_ms, 3, start_offset)


def transaction(producer_id: int, *partitions: int, state: str = "Ongoing") -> TransactionState:
    topics = [TopicData("orders", list(partitions))] if partitions else []
    return TransactionState(0, "billing", state, 60_000, NOW_MS, producer_id, 2, topics)


def test_a_transaction_that_no_coordinator_knows_hangs() -> None:
    admin = administered()
    admin.cluster.producers[ORDERS_1] = [open_since(HOUR_MS)]
    expected = HangingTransaction(ORDERS_1, 4, 7, 2, 3, NOW_MS - HOUR_MS, None)
    assert run(admin.transactions.find_hanging()) == (expected,)


def test_a_transaction_whose_coordinator_does_not_count_the_partition_hangs() -> None:
    admin = administered()
    admin.cluster.coordinators["billing"] = 3
    admin.cluster.producers[ORDERS_0] = [open_since(HOUR_MS)]
    admin.cluster.producers[ORDERS_1] = [open_since(HOUR_MS)]
    admin.cluster.transactional["billing"] = transaction(7, 1)
    (found,) = run(admin.transactions.find_hanging())
    assert (found.partition, found.transactional_id) == (ORDERS_0, "billing")


def test_one_that_its_coordinator_still_knows_does_not_hang() -> None:
    admin = administered()
    admin.cluster.producers[ORDERS_1] = [open_since(HOUR_MS)]
    admin.cluster.transactional["billing"] = transaction(7, 1, state="PrepareCommit")
    assert run(admin.transactions.find_hanging()) == ()


def test_one_that_is_young_is_not_looked_at() -> None:
    admin = administered()
    admin.cluster.producers[ORDERS_1] = [open_since(900_000)]
    assert run(admin.transactions.find_hanging()) == ()
    assert admin.asked(ApiKey.LIST_TRANSACTIONS) == []
    (found,) = run(admin.transactions.find_hanging(max_transaction_timeout_ms=899_999))
    assert found.partition == ORDERS_1


def test_only_partitions_that_were_named_are_looked_at() -> None:
    admin = administered()
    admin.cluster.create_topic("ledger", 3)
    for partition in (ORDERS_0, ORDERS_1, TopicPartition("ledger", 1)):
        admin.cluster.producers[partition] = [open_since(HOUR_MS)]

    def found(**where: Any) -> list[str]:
        return [str(each.partition) for each in run(admin.transactions.find_hanging(**where))]

    assert found() == ["ledger-1", "orders-0", "orders-1"]
    assert found(topics=["orders"]) == ["orders-0", "orders-1"]
    assert found(broker_id=2) == ["ledger-1", "orders-1"]


def test_nothing_is_called_hanging_because_its_coordinator_could_not_be_asked() -> None:
    admin = administered()
    admin.cluster.producers[ORDERS_1] = [open_since(HOUR_MS)]
    admin.cluster.transactional["billing"] = transaction(7, 1)
    denied = TransactionState(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "billing")
    admin.cluster.answers[ApiKey.DESCRIBE_TRANSACTIONS] = lambda request: DescribeTransactionsResponse(
        transaction_states=[denied]
    )
    with pytest.raises(AbortableError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        run(admin.transactions.find_hanging())


def test_a_producer_without_an_open_transaction_is_no_candidate() -> None:
    idle = Producer(7, 2, 5, NOW_MS - HOUR_MS, 3, None)
    assert candidates({ORDERS_0: [idle]}, now_ms=NOW_MS, max_transaction_timeout_ms=0) == []


def test_aborting_takes_the_transaction_that_begins_at_an_offset() -> None:
    from semel.wire.messages.write_txn_markers import (
        WritableTxnMarkerPartitionResult,
        WritableTxnMarkerResult,
        WritableTxnMarkerTopicResult,
        WriteTxnMarkersResponse,
    )

    admin = administered()
    admin.cluster.producers[ORDERS_1] = [open_since(HOUR_MS, 7, 4), open_since(HOUR_MS, 8, 9)]
    done = WritableTxnMarkerTopicResult("orders", [WritableTxnMarkerPartitionResult(1, 0)])
    admin.cluster.answers[ApiKey.WRITE_TXN_MARKERS] = lambda request: WriteTxnMarkersResponse(
        [WritableTxnMarkerResult(8, [done])]
    )
    run(admin.transactions.abort(("orders", 1), start_offset=9))
    (request,) = admin.bench.requests(ApiKey.WRITE_TXN_MARKERS)
    (marker,) = request.message.markers
    assert request.node_id == admin.cluster.leaders[ORDERS_1]
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (8, 2, 3)
    assert marker.transaction_result is False
    with pytest.raises(AbortableError, match="orders-1 has no open transaction that begins at offset 5"):
        run(admin.transactions.abort(("orders", 1), start_offset=5))


@pytest.mark.parametrize("which", [{}, {"producer_id": 1}, {"start_offset": 1, "producer_id": 1}])
def test_aborting_needs_to_know_which_transaction_is_meant(which: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="abort takes"):
        run(administered().transactions.abort(("orders", 0), **which))
