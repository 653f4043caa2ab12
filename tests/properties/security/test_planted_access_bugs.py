"""Bugs of access control that others have had, or that this code could have, planted one by one: each is found.

Most are found by random ACLs against the naive rules (``test_access_matrix.py``); what takes two requests or two
clients, by the test that is named beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from semel.broker.fetch import reading
from semel.broker.produce import in_place_parser
from semel.broker.requests.access import declarations, groups, topics, transactions
from semel.broker.requests.handlers import (
    add_partitions_to_txn,
    describe_topic_partitions,
    metadata,
    offset_fetch,
    produce,
)
from semel.security import acl_table
from semel.security.acls import AclBinding
from semel.wire.apis import ApiKey
from tests.broker.secured import ALICE, ROOT, SecuredBroker, secured_broker
from tests.broker.security import test_described_rights, test_fetch_rights
from tests.properties.security.access_world import World, semel_world
from tests.properties.security.kafka_rules import RULES
from tests.properties.security.planted import Bug, planted
from tests.properties.security.test_access_matrix import bindings, check

BY_RULES: dict[str, tuple[Bug, ApiKey, int]] = {
    "a rule that denies is not looked for behind a prefix": (
        Bug(
            cast(Any, acl_table._RulesOfType.covering),
            "[rules for length in lengths if",
            "[rules for length in (() if name in literal else lengths) if",
        ),
        ApiKey.LIST_OFFSETS,
        6,
    ),
    "a refused topic is lost from the answer": (
        Bug(cast(Any, declarations.Items.put_back), "results.insert(place, refusal)", "pass"),
        ApiKey.OFFSET_COMMIT,
        8,
    ),
    "only the first item is looked at": (
        Bug(cast(Any, declarations.Items.take_out), "if refusal is not None:", "if refusal is not None and not place:"),
        ApiKey.DESCRIBE_GROUPS,
        5,
    ),
    "of two rights only the first is needed": (
        Bug(cast(Any, declarations.Need.refusal_in_slices), "return self.right.refusal", "break"),
        ApiKey.TXN_OFFSET_COMMIT,
        3,
    ),
    "CVE-2018-17196: the transactional id of a Produce is not looked at": (
        Bug(
            cast(Any, produce._may_write),
            "transactional_id is not None and rights.demand(WRITE_TRANSACTIONAL_ID, transactional_id)",
            "True",
        ),
        ApiKey.PRODUCE,
        9,
    ),
    "CVE-2018-1288: a client is a replica because it says so": (
        Bug(cast(Any, reading.FetchParameters.may_fetch), "return rights.demand(CLUSTER_ACTION)", "return True"),
        ApiKey.FETCH,
        11,
    ),
    "a transaction takes topics that its producer may not write to": (
        Bug(cast(Any, add_partitions_to_txn._refusal), "not rights.demand(WRITE_TOPIC, partition.topic)", "False"),
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
    ),
    "names leak in ListTransactions": (
        Bug(
            cast(Any, transactions._only_described),
            "rights.may(DESCRIBE_TRANSACTIONAL_ID, state.transactional_id)",
            "True",
        ),
        ApiKey.LIST_TRANSACTIONS,
        2,
    ),
    "topics leak in DescribeTransactions": (
        Bug(cast(Any, transactions._without_hidden_topics), "rights.may(DESCRIBE_TOPIC, topic.topic)", "True"),
        ApiKey.DESCRIBE_TRANSACTIONS,
        0,
    ),
    "names leak in ListGroups": (
        Bug(cast(Any, groups._only_described), "rights.may(DESCRIBE_GROUP, group.group_id)", "True"),
        ApiKey.LIST_GROUPS,
        4,
    ),
    "topics leak in the offsets of a group": (
        Bug(cast(Any, offset_fetch._add), "not rights.may(DESCRIBE_TOPIC, name)", "False"),
        ApiKey.OFFSET_FETCH,
        8,
    ),
    "an id is answered with the name of a topic that is hidden": (
        Bug(
            cast(Any, metadata._asked),
            "MetadataResponseTopic(DESCRIBE_TOPIC.refusal, None, asked.topic_id)",
            "MetadataResponseTopic(DESCRIBE_TOPIC.refusal, topic.name, asked.topic_id)",
        ),
        ApiKey.METADATA,
        12,
    ),
    "a topic is created by asking for it": (
        Bug(
            cast(Any, metadata._may_create), "(rights.may(CREATE_CLUSTER) or rights.demand(CREATE_TOPIC, name))", "True"
        ),
        ApiKey.METADATA,
        9,
    ),
    "a topic that was deleted by its id was hidden": (
        Bug(
            cast(Any, topics._check_deleted),
            "known.name if rights.may(DESCRIBE_TOPIC, known.name) else None",
            "known.name",
        ),
        ApiKey.DELETE_TOPICS,
        6,
    ),
}


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with secured_broker(group_initial_rebalance_delay_ms=0) as secured:
        yield semel_world(secured)


@pytest.mark.parametrize("name", BY_RULES)
def test_a_planted_bug_is_found_by_the_rules(world: World, name: str) -> None:
    bug, key, version = BY_RULES[name]

    @settings(max_examples=300, database=None, derandomize=True, phases=[Phase.generate])
    @given(st.lists(bindings(RULES[key].about), max_size=8), st.integers(0, 11))
    def holds(rules: list[AclBinding], variant: int) -> None:
        check(world, key, version, rules, variant)

    with planted(bug), pytest.raises(AssertionError):
        holds()


Seen = Callable[[SecuredBroker], None]


def _fetches(secured: SecuredBroker) -> None:
    root = secured.client(ROOT)
    topic = root.create_topic("sessions")
    test_fetch_rights.test_rights_are_looked_at_with_every_fetch_of_a_session(
        secured, root, secured.client(ALICE), topic, 12
    )


def _cached(secured: SecuredBroker) -> None:
    root = secured.client(ROOT)
    topic = root.create_topic("cached")
    test_described_rights.test_an_answer_to_metadata_is_not_told_to_another_client(
        secured, root, secured.client(ALICE), topic
    )


def _in_place(secured: SecuredBroker) -> None:
    root = secured.client(ROOT)
    topic = root.create_topic("in-place")
    test_fetch_rights.test_a_request_that_is_parsed_in_place_needs_write_on_its_topic(
        secured, root, secured.client(ALICE), topic, 9
    )


def _pages(secured: SecuredBroker) -> None:
    test_described_rights.test_no_cursor_names_a_topic_that_the_client_may_not_describe(
        secured, secured.client(ROOT), secured.client(ALICE), "pages"
    )


def _large(secured: SecuredBroker) -> None:
    test_described_rights.test_a_large_request_is_checked_piece_by_piece_and_answered_in_its_order(
        secured, secured.client(ROOT), secured.client(ALICE), "large"
    )


BY_TESTS: dict[str, tuple[Bug, Seen]] = {
    "what a fetch session remembers is not checked again": (
        Bug(
            cast(Any, reading.partition_of),
            "if parameters.rights is not None and",
            "if parameters.rights is not None and target.sent_high_watermark is None and",
        ),
        _fetches,
    ),
    "an answer to Metadata is kept for all clients": (
        Bug(cast(Any, metadata.metadata), "if rights is None:", "if True:"),
        _cached,
    ),
    "a request that is parsed in place is not checked": (
        Bug(
            cast(Any, in_place_parser.may_write),
            "rights.may(WRITE_TOPIC, partition.topic_partition.topic)",
            "True",
        ),
        _in_place,
    ),
    "a cursor names a topic that is hidden": (
        Bug(
            cast(Any, describe_topic_partitions._answer),
            "names, hidden = yield from _by_visibility(names, rights)",
            "_, hidden = yield from _by_visibility(names, rights)",
        ),
        _pages,
    ),
    "the refusals of a piece come after its results": (
        Bug(cast(Any, declarations.Items.put_back), "results.insert(place, refusal)", "results.append(refusal)"),
        _large,
    ),
}


@pytest.mark.parametrize("name", BY_TESTS)
def test_a_planted_bug_is_found_by_its_test(name: str) -> None:
    bug, look = BY_TESTS[name]
    with secured_broker() as sound:
        look(sound)
    with planted(bug), secured_broker() as secured, pytest.raises(AssertionError):
        look(secured)
