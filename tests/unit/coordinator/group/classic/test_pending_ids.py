"""Ids that were handed out: a set like any other, of which little is copied when one is added or taken out."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from semel.coordinator.group.classic.pending_ids import NO_IDS, PENDING_IDS_MAX, PendingIds


@given(steps=st.lists(st.tuples(st.booleans(), st.integers(0, 20).map(str)), max_size=60))
@settings(deadline=None)
def test_it_is_a_set_whose_former_values_stay_as_they_were(steps: list[tuple[bool, str]]) -> None:
    ids, model = NO_IDS, frozenset[str]()
    history: list[tuple[PendingIds, frozenset[str]]] = []
    for is_added, member_id in steps:
        ids, model = (
            (ids.with_id(member_id), model | {member_id}) if is_added else (ids.without(member_id), model - {member_id})
        )
        history.append((ids, model))
    for then, expected in history:
        assert (len(then), sorted(then), bool(then)) == (len(expected), sorted(expected), bool(expected))
        assert all((str(number) in then) == (str(number) in expected) for number in range(21))
        assert frozenset(then) == expected
        assert then & {"1", "2"} == expected & {"1", "2"}


def test_to_hand_out_one_more_copies_a_small_part_and_shares_the_rest() -> None:
    """Ten thousand ids in one frozen set were copied whole for each of them."""
    ids = NO_IDS
    for number in range(PENDING_IDS_MAX):
        before, ids = ids, ids.with_id(f"client-{number}")
    copied = [part for part, former in zip(ids._parts, before._parts, strict=True) if part is not former]
    assert len(copied) == 1
    assert max(map(len, ids._parts)) < PENDING_IDS_MAX / 50
    after = ids.without("client-77")
    assert sum(part is not former for part, former in zip(after._parts, ids._parts, strict=True)) == 1
