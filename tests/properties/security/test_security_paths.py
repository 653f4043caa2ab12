"""ACLs, users and quotas through the metadata store and back (CVE-2024-27309: rules that deny were lost on the way)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.metadata.image import ClusterImage, changes_between
from semel.metadata.security.image import (
    AclsAltered,
    QuotasAltered,
    SecurityChange,
    UserAltered,
    UserSecretMade,
    security_of,
)
from semel.metadata.security.paths import decode_security, encode_security, security_path
from semel.security.acls import AclRule, ResourcePattern
from semel.security.quota_entities import QuotaEntity, Quoted
from semel.security.sasl.scram import HASHES
from semel.security.sasl.scram_credentials import ScramCredential
from semel.wire.codes import AclOperation, AclPatternType, AclPermission, AclResourceType

NAMES = st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=6)
RULES = st.builds(AclRule, NAMES, NAMES, st.sampled_from(AclOperation), st.sampled_from(AclPermission))
PATTERNS = st.builds(ResourcePattern, st.sampled_from(AclResourceType), st.sampled_from(AclPatternType), NAMES)
CREDENTIALS = st.builds(ScramCredential, st.binary(), st.binary(), st.binary(), st.integers(4096, 16384))
NAME_OR_DEFAULT = NAMES | st.just(Quoted.DEFAULT)
ENTITIES = (
    st.builds(QuotaEntity, user=NAME_OR_DEFAULT, client_id=NAME_OR_DEFAULT | st.none())
    | st.builds(QuotaEntity, client_id=NAME_OR_DEFAULT)
    | st.builds(QuotaEntity, ip=NAME_OR_DEFAULT)
)
CHANGES: st.SearchStrategy[SecurityChange] = (
    st.builds(AclsAltered, PATTERNS, st.frozensets(RULES, max_size=4))
    | st.builds(UserAltered, NAMES, st.dictionaries(st.sampled_from(list(HASHES)), CREDENTIALS))
    | st.builds(UserSecretMade, st.binary() | st.none())
    | st.builds(QuotasAltered, ENTITIES, st.dictionaries(NAMES, st.floats(0, 1e12), max_size=3))
)


@given(CHANGES)
def test_cve_2024_27309_what_the_store_keeps_says_the_same(change: SecurityChange) -> None:
    path = security_path(change)
    assert path.count("/") == 2
    assert decode_security(path, encode_security(change)) == change


@given(st.lists(CHANGES), st.lists(CHANGES))
def test_the_changes_between_two_images_turn_one_into_the_other(
    first: list[SecurityChange], second: list[SecurityChange]
) -> None:
    empty = ClusterImage("cluster")
    before, after = empty.apply(first), empty.apply(second)
    turned = before.apply(changes_between(before, after))
    assert security_of(turned) == security_of(after)


@given(st.lists(CHANGES))
def test_two_paths_are_never_the_same(changes: list[SecurityChange]) -> None:
    keys = {
        (type(one), getattr(one, "pattern", None), getattr(one, "name", None), getattr(one, "entity", None))
        for one in changes
    }
    assert len({security_path(one) for one in changes}) == len(keys)


def test_a_secret_does_not_show() -> None:
    credential = ScramCredential(b"the salt", b"the key", b"the other", 4096)
    assert "the" not in repr(credential)
    assert "the" not in repr(UserAltered("alice", dict.fromkeys(HASHES, credential)))
