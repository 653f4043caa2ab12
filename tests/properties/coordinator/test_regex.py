"""Regular expressions beside Python's ``re``, which understands nearly the same and can hang."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.coordinator.regex.automaton import STEPS_MAX
from semel.coordinator.regex.regex import Regex
from semel.coordinator.regex.syntax import RegexError

CHARS = "ab1._-"
names = st.text(CHARS, max_size=8)
CLASSES = ["[ab]", "[^a]", "[a-b1]", "[]a]", "[^]a]", "[-a]", r"[\d_]", r"\d", r"\w", r"\W", r"\D", "."]
atoms = st.sampled_from(["a", "b", "1", r"\.", "_", "-", "^", "$", "", "(?i:A)", *CLASSES])
patterns = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map("".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda nodes: f"({'|'.join(nodes)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "*?", "{2}", "{1,2}", "{0,}", "{0}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=8,
)


@given(pattern=patterns, name=names)
@settings(max_examples=600)
def test_it_matches_what_re_matches(pattern: str, name: str) -> None:
    # In ``re``, ``$`` is also true before a line feed at the end; a name has none.
    assert Regex(pattern).matches(name) == (re.fullmatch(pattern, name) is not None)


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("orders", "orders", True),
        ("orders", "orders2", False),
        ("order", "orders", False),
        ("^orders.*$", "orders-eu", True),
        ("(^ord.*)|(^pay.*)", "payments", True),
        ("(?i)ORDERS", "orders", True),
        ("(?i)a(?-i)b", "Ab", True),
        ("(?i)a(?-i)b", "AB", False),
        ("[[:lower:]]+", "orders", True),
        ("[[:lower:]]+", "Orders", False),
        ("[[:^digit:]]+", "orders1", False),
        (r"\Aorders\z", "orders", True),
        ("(?P<what>orders)", "orders", True),
        ("a/b", "a.b", False),
        ("orders[.]eu", "orders.eu", True),
        ("x{2,3}", "xxxx", False),
    ],
)
def test_examples(pattern: str, name: str, matches: bool) -> None:
    assert Regex(pattern).matches(name) is matches


MALFORMED = ["(", ")", "a)", "[a", "[", "*", "a**", "a{3,2}", "[b-a]", "[[:nosuch:]]", "(?z)", "\\"]
NOT_UNDERSTOOD = [r"(a)\1", "(?=a)", "(?<!a)b", r"\bfoo", r"\pN"]
TOO_LARGE = [
    "a{1001}",
    "(.?){999}",
    "(a|b?){500}",
    "[a]" * 2000,
    "(" * 60 + ")" * 60,
    "((((a{100}){100}){100}){100})",
    "(((){999}){999}){999}",
]


@pytest.mark.parametrize("pattern", [*MALFORMED, *NOT_UNDERSTOOD, *TOO_LARGE])
def test_what_is_not_understood_is_refused(pattern: str) -> None:
    with pytest.raises(RegexError):
        Regex(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(.*)*b", ".*.*.*.*.*.*b", "(a?){60}a{60}b"])
def test_no_pattern_takes_long(pattern: str) -> None:
    """Linear, and not exponential: that would take years, and the test would be ended."""
    assert not Regex(pattern).matches("a" * 249)


def test_a_long_list_of_names_is_understood() -> None:
    names = [f"orders-{number:03}" for number in range(150)]
    regex = Regex(f"({'|'.join(names)})(-[a-z0-9]{{1,40}})?")
    assert all(regex.matches(name) for name in names)
    assert regex.matches("orders-149-eu")
    assert not regex.matches("orders-150")


@given(pattern=patterns, repeat=st.integers(1, 300), name=st.text(CHARS, max_size=249))
@settings(max_examples=200, deadline=None)
def test_the_work_for_a_name_is_bounded_whatever_the_pattern(pattern: str, repeat: int, name: str) -> None:
    """Counted in positions of the pattern, and not in seconds."""
    with suppress(RegexError):
        regex = Regex(f"(?:{pattern}){{0,{repeat}}}")
        regex.matches(name)
        assert regex.work <= STEPS_MAX * (len(name) + len(CHARS)) + len(name)


@given(pattern=st.text("ab()[]{}*+?|^$\\.,-:<>=!Pi0123", max_size=14), name=names)
def test_any_text_is_understood_or_refused(pattern: str, name: str) -> None:
    with suppress(RegexError):
        Regex(pattern).matches(name)
