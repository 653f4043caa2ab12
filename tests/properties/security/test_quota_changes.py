"""Altering and describing quotas beside a dictionary that is changed naively."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.metadata.image import ClusterImage
from semel.metadata.security.image import QuotasAltered, security_of
from semel.metadata.security.quota_changes import (
    QuotaEntry,
    QuotaFilterPart,
    alter_client_quotas,
    describe_client_quotas,
    parts_of,
)

USERS = (None, "alice", "bob")
CLIENTS = (None, "app")
PARTS = st.one_of(
    st.builds(lambda user: (("user", user),), st.sampled_from(USERS)),
    st.builds(lambda client: (("client-id", client),), st.sampled_from(CLIENTS)),
    st.builds(
        lambda user, client: (("user", user), ("client-id", client)), st.sampled_from(USERS), st.sampled_from(CLIENTS)
    ),
)
BAD_PARTS = st.sampled_from(
    (
        (),
        (("user", ""),),
        (("cat", "alice"),),
        (("user", "alice"), ("user", "bob")),
        (("ip", "10.0.0.1"), ("user", "alice")),
        (("ip", "not-an-address"),),
    )
)
VALUES = st.sampled_from((None, 1.0, 5.0, 1000.0, 0.0, -1.0, 0.5, float("nan"), float("inf"), 1e30))
KEYS = st.sampled_from(("producer_byte_rate", "request_percentage", "connection_creation_rate", "nonsense"))
ENTRIES = st.builds(
    QuotaEntry, st.one_of(PARTS, PARTS, PARTS, BAD_PARTS), st.lists(st.tuples(KEYS, VALUES), max_size=3).map(tuple)
)


def is_good(entry: QuotaEntry, times: int) -> bool:
    if times > 1 or not all(kind in ("user", "client-id") and name != "" for kind, name in entry.parts):
        return False
    if not entry.parts or len({kind for kind, _ in entry.parts}) < len(entry.parts):
        return False
    if len({key for key, _ in entry.quotas}) < len(entry.quotas):
        return False
    for key, value in entry.quotas:
        if value is None:
            continue
        if key not in ("producer_byte_rate", "request_percentage") or not 0 < value < float("inf"):
            return False
        if key == "producer_byte_rate" and (value != int(value) or value > 2**63 - 1):
            return False
    return True


@given(st.lists(st.lists(ENTRIES, min_size=1, max_size=4), max_size=6))
def test_quotas_are_those_of_a_dictionary_that_is_changed_naively(requests: list[list[QuotaEntry]]) -> None:
    image = ClusterImage("cluster")
    model: dict[frozenset[tuple[str, str | None]], dict[str, float]] = {}
    for entries in requests:
        keys = [frozenset(entry.parts) for entry in entries]
        decision = alter_client_quotas(image, entries)
        good = [is_good(entry, keys.count(key)) for entry, key in zip(entries, keys, strict=True)]
        assert [result.refusal is None for result in decision.results] == good
        assert [result.parts for result in decision.results] == [entry.parts for entry in entries]
        for entry, key, is_taken in zip(entries, keys, good, strict=True):
            if is_taken:
                for name, value in entry.quotas:
                    if value is None:
                        model.get(key, {}).pop(name, None)
                    else:
                        model.setdefault(key, {})[name] = value
        model = {key: quotas for key, quotas in model.items() if quotas}
        for change in decision.changes:
            assert isinstance(change, QuotasAltered)
            assert change.quotas != security_of(image).quotas.get(change.entity, {})
        image = image.apply(decision.changes)
        assert {
            frozenset(parts_of(entity)): dict(quotas) for entity, quotas in security_of(image).quotas.items()
        } == model


FILTERS = st.lists(
    st.one_of(
        st.builds(QuotaFilterPart, st.sampled_from(("user", "client-id")), st.sampled_from((1, 2))),
        st.builds(
            QuotaFilterPart, st.sampled_from(("user", "client-id")), st.just(0), st.sampled_from(("alice", "app"))
        ),
    ),
    max_size=2,
    unique_by=lambda part: part.kind,
)


@given(st.lists(PARTS, max_size=6, unique=True), FILTERS, st.booleans())
def test_a_filter_finds_the_entities_that_have_all_its_parts(
    entities: list[tuple[tuple[str, str | None], ...]], wanted: list[QuotaFilterPart], strict: bool
) -> None:
    entries = [QuotaEntry(parts, (("request_percentage", 5.0),)) for parts in entities]
    image = ClusterImage("cluster").apply(alter_client_quotas(ClusterImage("cluster"), entries).changes)

    def fits(parts: dict[str, str | None]) -> bool:
        if strict and set(parts) != {part.kind for part in wanted}:
            return False
        has_kinds = all(part.kind in parts for part in wanted)
        return has_kinds and all(part.match == 2 or parts[part.kind] == part.name for part in wanted)

    found = [dict(parts_of(entity)) for entity, _ in describe_client_quotas(image, wanted, strict=strict)]
    assert sorted(map(repr, found)) == sorted(repr(dict(parts)) for parts in entities if fits(dict(parts)))
