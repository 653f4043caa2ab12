"""Regular expressions from clients: what they match, what is refused, and that none of them can hang the broker."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semel.coordinator.regex.automaton import MATCHED, MOVES_REMEMBERED_MAX, Steps
from semel.coordinator.regex.regex import Regex
from semel.coordinator.regex.syntax import RegexError

TEXTS = st.text("ab-1\n", max_size=8)


@st.composite
def expressions(draw: st.DrawFn) -> str:
    atoms = ["a", "b", "-", r"\-", ".", "[ab]", "[^a]", "[a-b1]", r"\d", r"\W", "^", "$", "(?:)", "()"]
    expression = st.recursive(
        st.sampled_from(atoms),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map("".join),
            st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
            st.tuples(inner, st.sampled_from(("*", "+", "?", "{2}", "{1,}", "{0,2}", "*?"))).map(
                lambda pair: f"(?:{pair[0]}){pair[1]}"
            ),
        ),
        max_leaves=8,
    )
    return draw(expression)


@given(expressions(), TEXTS)
def test_it_matches_what_python_matches(expression: str, text: str) -> None:
    # Python's $ also stands before a newline at the end; RE2's does not.
    expected = re.fullmatch(expression.replace("$", r"\Z"), text) is not None
    assert Regex(expression).matches(text) is expected


@pytest.mark.parametrize(
    ("expression", "matching", "other"),
    [
        ("payments-[0-9]+", "payments-17", "payments-x"),
        ("(orders|audit)-.*", "audit-", "audits-"),
        ("a{2,3}", "aaa", "aaaa"),
        ("a{x}", "a{x}", "a"),
        ("a{,2}", "a{,2}", "aa"),
        ("[]-]+", "]-]", "a"),
        ("[^]]", "a", "]"),
        ("[a-]", "-", "b"),
        (r"[\w.]+", "a_1.Z", "a-1"),
        (r"[\t\]]", "]", "t"),
        (r"\$\.\(", "$.(", "$a("),
        (r"\S+\s\D", "ab c", "ab 1"),
        ("", "", "a"),
        ("^a$", "a", "ba"),
        ("$^", "", "a"),
        ("(a*)*b", "aab", "aac"),
        ("größe.", "größe1", "grösse1"),
        ("(?i)größe", "GRÖßE", "gros"),
        ("(?i)[a-c]+", "aBC", "ß"),
        ("(?s)a.b", "a\nb", "a\nc"),
        ("(?P<n>a)b", "ab", "a"),
        ("[[:alpha:]]+", "abC", "a1"),
        ("[[:^alpha:]!]+", "1!", "a"),
    ],
)
def test_it_reads_the_usual_syntax(expression: str, matching: str, other: str) -> None:
    pattern = Regex(expression)
    assert pattern.matches(matching)
    assert not pattern.matches(other)


@pytest.mark.parametrize(
    "expression",
    [
        *("(", ")", "a)", "[a", "[", "*", "+a", "|*", "a**", "[b-a]", "\\", "a{3,2}", "a{1001}"),
        *(r"(a)\1", "(?=a)a", "(?<!b)a", r"\bword", r"\pL", "[[:nosuch:]]", r"[a-\d]", "[a-"),
    ],
)
def test_what_it_does_not_know_is_refused(expression: str) -> None:
    with pytest.raises(RegexError):
        Regex(expression)


@pytest.mark.parametrize(
    "expression",
    ["(.?){999}", "a" * 5000, "(((a{100}){100}){100})", "((a{0}){999}){999}", "((){999}){999}", "(" * 101 + ")" * 101],
)
def test_a_pattern_that_unfolds_without_end_is_refused(expression: str) -> None:
    with pytest.raises(RegexError):
        Regex(expression)


@pytest.mark.parametrize("expression", ["(a+)+b", "(a|a)*b", "(a|aa)+b", "a*a*a*a*a*a*b", "(.*)(.*)(.*)(.*)[b]"])
def test_no_pattern_takes_longer_than_the_text_is_long(expression: str) -> None:
    """Each of them keeps a search by backtracking busy for years: this test would not come to its end."""
    assert not Regex(expression).matches("a" * 30_000)


def test_a_set_of_characters_that_is_repeated_is_examined_once_for_each_character() -> None:
    """A client writes sets of 4,000 characters, and repeats them a thousand times."""
    examined = []

    def is_letter(char: str) -> bool:
        examined.append(char)
        return char in "ab"

    steps, following = Steps("[ab]{100}"), MATCHED
    for _ in range(100):
        following = steps.consume(is_letter, following)
    automaton = steps.automaton(following)

    assert automaton.matches("ab" * 50)
    assert not automaton.matches("ab" * 49 + "a-")
    assert examined == ["a", "b", "-"]


def test_what_it_remembers_is_bounded() -> None:
    pattern = Regex(".*x.{0,4}y")
    for start in range(0x4E00, 0x4E00 + 20_000):
        assert not pattern.matches(f"x{chr(start)}")
    assert pattern._automaton._moves < MOVES_REMEMBERED_MAX
    assert len(pattern._automaton._taking) <= MOVES_REMEMBERED_MAX
