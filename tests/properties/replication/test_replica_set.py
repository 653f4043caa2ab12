"""The replica set under any order of facts: the high watermark and what is confirmed never go back, nor too far."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from semel.replication.replica_set import ReplicaSet

LEADER, FOLLOWERS = 1, (2, 3)
REPLICAS = (LEADER, *FOLLOWERS)

facts = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 3)),
    st.tuples(st.just("sync"), st.integers(1, 3)),
    st.tuples(st.just("fetch"), st.sampled_from(FOLLOWERS), st.integers(0, 4)),
    st.tuples(st.just("restart"), st.sampled_from(FOLLOWERS)),
    st.tuples(st.just("late fetch"), st.sampled_from(FOLLOWERS), st.integers(0, 9)),
    st.tuples(st.just("propose"), st.integers(0, 20_000)),
    st.tuples(st.just("carried out")),
    st.tuples(st.just("refused")),
    st.tuples(st.just("image shrinks"), st.sampled_from(FOLLOWERS)),
    st.tuples(st.just("ask")),
    st.tuples(st.just("reply"), st.sampled_from(FOLLOWERS), st.integers(0, 9)),
    st.tuples(st.just("min"), st.integers(1, 3)),
)


@given(
    st.lists(facts, max_size=60),
    st.sets(st.sampled_from(FOLLOWERS)),
    st.integers(0, 5),
    st.integers(0, 5),
    st.integers(1, 3),
)
@settings(max_examples=300)
def test_no_order_of_facts_moves_the_high_watermark_back_or_past_a_member_of_the_maximal_set(
    steps: list[tuple[object, ...]], isr: set[int], start: int, high_watermark: int, min_insync_replicas: int
) -> None:
    """Scenarios 59 and 60."""
    end = durable = start
    offsets = dict.fromkeys(FOLLOWERS, 0)
    epochs = dict.fromkeys(FOLLOWERS, 1)
    asked: dict[int, int] = {}
    now_ms = 0.0
    replicas = ReplicaSet(
        node_id=LEADER,
        replicas=REPLICAS,
        isr={LEADER, *isr},
        epoch_start_offset=start,
        log_end_offset=end,
        durable_offset=end,
        high_watermark=min(high_watermark, start),
        min_insync_replicas=min_insync_replicas,
    )
    for step in steps:
        before = (replicas.high_watermark, replicas.confirmed_ticket)
        had_enough, moved = replicas.has_enough, None
        match step:
            case ("append", int(count)):
                end += count
                replicas.appended(end)
            case ("sync", int(count)):
                durable = min(durable + count, end)
                moved = replicas.leader_synced(durable)
            case ("fetch", int(replica), int(count)):
                offsets[replica] = min(offsets[replica] + count, end)
                now_ms += 1
                moved = replicas.fetched(replica, offsets[replica], broker_epoch=epochs[replica], now_ms=now_ms)
            case ("restart", int(replica)):
                epochs[replica] += 1
                offsets[replica] = 0
                moved = replicas.fetched(replica, 0, broker_epoch=epochs[replica], now_ms=now_ms)
            case ("late fetch", int(replica), int(offset)):
                if replicas.offset_of(replica) or epochs[replica] > 1:
                    moved = replicas.fetched(replica, min(offset, end), broker_epoch=epochs[replica] - 1, now_ms=now_ms)
            case ("propose", int(later)):
                now_ms += later
                proposal = replicas.proposal(now_ms, lag_max_ms=10_000, broker_epochs=epochs)
                if proposal is not None:
                    joining = proposal - replicas.isr
                    assert all(offsets[replica] >= max(replicas.high_watermark, start) for replica in joining)
                    assert LEADER in proposal
                    replicas.proposed(proposal)
                    assert replicas.maximal_isr == replicas.isr | proposal
            case ("carried out",):
                if replicas.maximal_isr != replicas.isr:
                    replicas.isr_changed(replicas.maximal_isr)
                moved = replicas.proposal_settled() or replicas.high_watermark > before[0]
            case ("refused",):
                moved = replicas.proposal_settled()
            case ("image shrinks", int(replica)):
                moved = replicas.isr_changed(replicas.isr - {replica})
                had_enough = replicas.has_enough
            case ("ask",):
                asked[replicas.ask_confirmation()] = end
            case ("reply", int(replica), int(back)):
                mark = max(0, replicas.last_ticket - back)
                assert replicas.replied(replica, mark) == (replicas.confirmed_ticket > before[1])
            case ("min", int(number)):
                moved = replicas.require(number)
        assert replicas.high_watermark >= before[0]
        assert replicas.confirmed_ticket >= before[1]
        assert LEADER in replicas.isr <= replicas.maximal_isr
        if moved is not None:
            assert moved == (replicas.high_watermark > before[0])
        if replicas.high_watermark > before[0]:
            assert had_enough or replicas.has_enough
            assert replicas.high_watermark <= durable
            assert all(replicas.high_watermark <= offsets[r] for r in replicas.maximal_isr - {LEADER})
        if replicas.confirmed_ticket > before[1]:
            assert asked[replicas.confirmed_ticket] <= replicas.high_watermark
