"""A broker with an authorizer, something of everything in it, and what its answers say of each place.

Topics t-a, t-ab and t-b are there, t-x is not. Groups g-a and g-ab have committed offsets of t-a and t-ab, g-c has a
member of KIP-848's protocol with both. Transactions of i-a and i-ab are open on both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import fields, is_dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

from semel.security.acls import AclBinding
from semel.types import ZERO_UUID
from semel.wire.apis import ApiKey
from semel.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.raw_client import RawClient
from tests.broker.secured import ALICE, ROOT, SecuredBroker
from tests.broker.transactional_client import GROUP, TRANSACTION, Transactional, find_coordinator
from tests.properties.security.test_acl_table import table_of
from tools.patience import wait_until

TOPICS = ("t-a", "t-ab")
MISSING = "t-x"
NAMED = (*TOPICS, MISSING)
GROUPS = ("g-a", "g-ab")
IDS = ("i-a", "i-ab")
DOOMED = ("d-a", "d-ab")

Place = tuple[str | int, ...]
"""The names and numbers on the way to a result in an answer; a topic's id is ``#`` and its name."""

AUTHORIZATION = (29, 30, 31, 53)

# What tells one element of an answer from the next.
_IDENTITIES = (
    "resource_type",
    "name",
    "topic",
    "topic_name",
    "topic_id",
    "group_id",
    "transactional_id",
    "key",
    "user",
    "resource_name",
    "partition_index",
    "index",
    "partition",
    "partition_id",
)
_CODES = ("error_code", "partition_error_code")
# Elements that have no code: to be named is all that happens to them.
_MERELY_NAMED = {"ListedGroup", "TransactionState", "TopicData"}


class World:
    """``root`` may do everything, ``alice`` what the bindings say that ``load`` is given.

    ``is_semel``: a group that is refused in OffsetFetch is refused at each partition too, where Kafka has one code for
    all (aiokafka looks for it there); and a topic that is created by asking for it is in the answer.
    """

    def __init__(
        self,
        root: RawClient,
        alice: RawClient,
        load: Callable[[Collection[AclBinding]], None],
        *,
        is_semel: bool = False,
    ) -> None:
        self.root = root
        self.alice = alice
        self.load = load
        self.is_semel = is_semel
        for name in (*TOPICS, "t-b"):
            self.root.create_topic(name)
        for key_type in (GROUP, TRANSACTION):
            until(lambda key_type=key_type: find_coordinator(self.root, "any", key_type).error_code == 0)
        self._epoch = 0
        self._producers = [Transactional(self.root, name, timeout_ms=900_000) for name in IDS]
        for producer in self._producers:
            until(lambda producer=producer: producer.init().error_code == 0)
            for topic in TOPICS:
                until(lambda producer=producer, topic=topic: producer.produce(topic, b"open").error_code == 0)

    @property
    def ids(self) -> dict[str, UUID]:
        """Of all topics."""
        return {
            topic.name: topic.topic_id for topic in self.root.call(ApiKey.METADATA, 12, MetadataRequest(None)).topics
        }

    def partition_count(self, name: str) -> int:
        asked = [MetadataRequestTopic(name=name)]
        (topic,) = self.root.call(ApiKey.METADATA, 12, MetadataRequest(asked, False)).topics
        return len(topic.partitions)

    @cached_property
    def unknown_id(self) -> UUID:
        return UUID(int=12345)

    # What requests of alice may have undone.

    def commit_offsets(self) -> None:
        places = [OffsetCommitRequestPartition(0, 0, committed_metadata="")]
        for group in GROUPS:
            topics = [OffsetCommitRequestTopic(topic, partitions=places) for topic in TOPICS]
            request = OffsetCommitRequest(group_id=group, topics=topics)

            def commit(request: OffsetCommitRequest = request) -> bool:
                answer = self.root.call(ApiKey.OFFSET_COMMIT, 8, request)
                return {topic.partitions[0].error_code for topic in answer.topics} == {0}

            until(commit)

    def forget_missing(self) -> None:
        if MISSING in self.ids:
            self.root.call(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=[MISSING], timeout_ms=10_000))
            until(lambda: MISSING not in self.ids)

    def make_doomed(self) -> None:
        topics = [CreatableTopic(name, 1, 1) for name in DOOMED]
        self.root.call(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=topics))
        until(lambda: set(DOOMED) <= self.ids.keys())

    def keep_member(self) -> None:
        """A member of g-c, until it has t-a and t-ab."""
        owned: list[TopicPartitions] = []
        while len(owned) < len(TOPICS):
            joining = (
                {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": list(TOPICS)} if not self._epoch else {}
            )
            request = ConsumerGroupHeartbeatRequest("g-c", "member", self._epoch, topic_partitions=owned, **joining)
            answer = self.root.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)
            if answer.error_code:
                self._epoch = 0
                continue
            self._epoch = answer.member_epoch
            if answer.assignment is None and not joining:
                return
            if answer.assignment is not None:
                owned = answer.assignment.topic_partitions

    def places(self, response: Any) -> dict[Place, int]:
        """Every result of an answer, with its code if that is one of authorization, else 0."""
        found: dict[Place, int] = {}
        if isinstance(response, DeleteTopicsResponse):
            # Apache Kafka's Metadata has topics for a moment after it was answered that they are deleted.
            deleted = {result.topic_id for result in response.responses if not result.error_code} - {ZERO_UUID}
            until(lambda: deleted.isdisjoint(self.ids.values()))
        names = {topic_id: name for name, topic_id in self.ids.items()}

        def walk(value: Any, path: Place) -> None:
            identity: list[str | int] = []
            for attribute in _IDENTITIES:
                named = getattr(value, attribute, None)
                if isinstance(named, UUID):
                    named = None if named == ZERO_UUID else "#" + names.get(named, "?")
                if named is not None and named != "":
                    identity.append(named)
            if type(value).__name__ == "WritableTxnMarkerResult":
                identity.append(value.producer_id)
            if type(value).__name__ == "DescribeLogDirsResult":
                identity = ["log dir"]
            here = (*path, *identity)
            codes = [getattr(value, name) for name in _CODES if hasattr(value, name)]
            if codes or type(value).__name__ in _MERELY_NAMED:
                code = codes[0] if codes else 0
                if here or code in AUTHORIZATION:
                    found[here] = code if code in AUTHORIZATION else 0
            for field in fields(value):
                inner = getattr(value, field.name)
                for element in inner if isinstance(inner, list) else ():
                    if is_dataclass(element):
                        walk(element, here)

        walk(response, ())
        return found


def until(is_so: Callable[..., bool]) -> None:
    """Of Apache Kafka: a broker is told of a change after the answer."""
    wait_until(is_so, "the broker is ready")


def semel_world(secured: SecuredBroker) -> World:
    def load(bindings: Collection[AclBinding]) -> None:
        """Past the metadata: thousands of times."""

        async def load() -> None:
            assert secured.node.authorizer is not None
            secured.node.authorizer.load(table_of(bindings))

        secured.broker._call(load())

    return World(secured.client(ROOT), secured.client(ALICE), load, is_semel=True)
