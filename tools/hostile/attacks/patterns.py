"""Attacks with regular expressions that are expensive to compile or match, and with texts that forge log lines."""

from __future__ import annotations

from uuid import UUID

from semel.wire.apis import ApiKey
from semel.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from semel.wire.messages.end_txn import EndTxnRequest
from semel.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from semel.wire.messages.list_transactions import ListTransactionsRequest
from semel.wire.messages.produce import ProduceRequest
from tools.hostile.attack_context import AttackContext, attack
from tools.hostile.attacks.produced import in_transaction, producer_of
from tools.hostile.attacks.requests import frame_of
from tools.hostile.attacks.transactions import TRANSACTIONAL, mark
from tools.hostile.batches import raw_batch, records, sound_batch

FORGED = "x\nFORGED-LINE 2026-01-01 ERROR semel.broker: the disk is on fire"
_LONGEST = 32_767

PATTERNS = (
    "(.?){999}",
    "(.?){1000}",
    "((.?){30}){30}",
    "(a*)*b",
    "(a|a|a|a|a|a|a|a|a|a)*b",
    "(((((a{0,50}){0,50}){0,50}){0,50}){0,50})",
    "[" + "a-z" * 10_000 + "]*",
    "(" * 5_000 + "a" + ")" * 5_000,
    "|".join(f"name{number}" for number in range(3_000)),
    "(?=" * 50 + "a" + ")" * 50,
    "\\p{L}{900}",
    ".*" * 3_000 + "z",
    "a{2147483647}",
    "x" * _LONGEST,
)


@attack
def patterns_in_heartbeats(context: AttackContext) -> None:
    context.new_topic()
    for number, pattern in enumerate(PATTERNS):
        member = str(UUID(int=context.random.getrandbits(128)))
        request = ConsumerGroupHeartbeatRequest(
            f"patterns-{number}",
            member,
            0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_regex=pattern,
            topic_partitions=[],
        )
        with context.connect() as client:
            context.must_answer(f"pattern {pattern[:30]}", client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request))


@attack
def patterns_in_list_transactions(context: AttackContext) -> None:
    for number in range(context.times(50, least=3)):
        producer_of(context, "a" * 100 + str(number))
    for pattern in PATTERNS:
        with context.connect() as client:
            request = ListTransactionsRequest(transactional_id_pattern=pattern)
            context.must_answer(f"pattern {pattern[:30]}", client.ask(ApiKey.LIST_TRANSACTIONS, 2, request))


@attack
def many_different_patterns(context: AttackContext) -> None:
    """The broker must not keep the compiled form of every pattern that was ever sent."""
    for number in range(context.times(2_000, least=20)):
        request = ConsumerGroupHeartbeatRequest(
            "many-patterns",
            str(UUID(int=context.random.getrandbits(128))),
            0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_regex=f"(.?){{{100 + number % 400}}}{number}",
            topic_partitions=[],
        )
        if context.expired:
            break
        with context.connect() as client:
            context.must_answer("pattern", client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request))


@attack
def newlines_in_every_text(context: AttackContext) -> None:
    """Transactional ids, group ids, client ids and other texts with a second line."""
    topic = context.new_topic()
    _marker_that_comes_too_late(context, topic)
    for number in range(context.times(50, least=5)):
        text = f"{FORGED} {number}"
        context.noted(in_transaction(context, topic, sound_batch(b"x"), text))
        with context.connect() as client:
            join = JoinGroupRequest(
                text,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                protocol_type=text,
                protocols=[JoinGroupRequestProtocol(text, b"")],
                reason=text,
            )
            context.noted(client.ask(ApiKey.JOIN_GROUP, 9, join, client_id=text))
        with context.connect() as client:
            # The header of this frame is valid, and the request after it is cut off.
            client.send(_cut(frame_of(ApiKey.PRODUCE, 9, ProduceRequest(text, timeout_ms=1000), client_id=text)))
            context.noted(client.receive())


def _marker_that_comes_too_late(context: AttackContext, topic: str) -> None:
    """Let a partition refuse a marker, because one with a later epoch is there: the coordinator logs the
    transactional id."""
    producer_id, epoch = producer_of(context, FORGED)
    batch = raw_batch(records(1), count=1, attributes=TRANSACTIONAL, producer=(producer_id, epoch, 0))
    context.noted(in_transaction(context, topic, batch, FORGED))
    mark(context, topic, producer_id, epoch + 5, 0)
    with context.connect() as client:
        context.noted(client.ask(ApiKey.END_TXN, 5, EndTxnRequest(FORGED, producer_id, epoch, True)))


@attack
def client_ids_of_32_kilobytes(context: AttackContext) -> None:
    for number in range(context.times(300, least=20)):
        client_id = chr(ord("a") + number % 26) * _LONGEST
        with context.connect() as client:
            join = JoinGroupRequest(
                "long-client-ids",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol("range", b"")],
            )
            context.must_answer(
                "JoinGroup with a client id of 32 KB", client.ask(ApiKey.JOIN_GROUP, 4, join, client_id=client_id)
            )
        with context.connect() as client:
            heartbeat = ConsumerGroupHeartbeatRequest(
                "long-client-ids-2",
                "m" * (_LONGEST if number % 2 else 10),
                0,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=["t" * 249],
                topic_partitions=[],
            )
            context.must_answer(
                "heartbeat with a client id of 32 KB",
                client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, heartbeat, client_id=client_id),
            )


def _cut(frame: bytes) -> bytes:
    cut = frame[4:-3]
    return len(cut).to_bytes(4, "big") + cut
