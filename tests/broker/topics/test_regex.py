"""Regular expressions over topic names: the same matches as RE2, at bounded cost."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.broker.topics.regex import MATCH_BUDGET, MAX_TABLE, TopicRegex
from mainstem.core.errors import InvalidExpression

NAMES = st.text("ab01._-", min_size=1, max_size=8)


def _expressions() -> st.SearchStrategy[str]:
    single = st.sampled_from(
        [
            "a",
            "b",
            "0",
            r"\.",
            ".",
            "[ab]",
            "[^a]",
            "[a-b0]",
            r"\d",
            r"\w",
            r"\D",
            r"[\d.]",
            "_",
            "-",
        ]
    )
    ends = st.sampled_from(["^", "$", ""])

    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        group = inner.map(lambda each: f"({each})") | inner.map(lambda each: f"(?:{each})")
        count = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{2,}", "*?", "{0}", "{0,1}"])
        return st.one_of(
            st.tuples(inner, inner).map("".join),
            st.tuples(inner, inner).map("|".join),
            st.tuples(single | group, count).map("".join),
            st.tuples(ends, inner, ends).map("".join),
        )

    return st.recursive(single, larger, max_leaves=8)


@given(_expressions(), st.lists(NAMES, min_size=1, max_size=5))
def test_it_means_what_the_standard_library_takes_it_to_mean(text: str, names: list[str]) -> None:
    regex = TopicRegex(text)
    other = re.compile(text.replace("$", r"\Z"), re.ASCII)

    assert regex.among(names) == [each for each in names if other.fullmatch(each)]


@given(st.text("ab^$.|()[]{}*+?\\dQpb:<>P=!-,019", max_size=20), NAMES)
def test_whatever_is_written_is_understood_or_refused(text: str, name: str) -> None:
    try:
        regex = TopicRegex(text)
    except InvalidExpression:
        return

    assert regex.matches(name) in (True, False)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (r"(a)\1", "is not supported"),
        ("(?=a)b", "lookahead"),
        ("(?<!a)b", "lookahead"),
        ("(?i)a", "flags"),
        ("a*+", "possessive"),
        (r"\bword", "is not supported"),
        (r"\pL", "is not supported"),
        ("[[:alpha:]]", "named classes"),
        ("(a", "without a )"),
        ("a)", "without a ("),
        ("[a", "without a ]"),
        ("[b-a]", "goes from less to more"),
        ("*a", "nothing before"),
        ("a**", "repeated"),
        ("a{3,2}", "goes from less to more"),
        ("a{1001}", "at most"),
        ("((a{100}){100}){100}", "too large"),
        ("(" * 200 + ")" * 200, "deep"),
        ("a" * 1_001, "characters"),
        ("a\\", "ends with"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(text: str, reason: str) -> None:
    with pytest.raises(InvalidExpression, match=re.escape(reason)):
        TopicRegex(text)


@pytest.mark.parametrize(
    "text", ["(a+)+b", "(a|a)*b", "(a*)*b", "(.*)*(.*)*(.*)*b", "(a?){50}a{50}", "(a|b)*a(a|b){11}"]
)
def test_expressions_that_blow_up_elsewhere_are_matched_at_once(text: str) -> None:
    regex = TopicRegex(text)

    regex.among(["a" * 249, "ab" * 120, "a" * 248 + "c"], MATCH_BUDGET)


NAME = "orders.europe-west_{}.v1"


@pytest.mark.parametrize(
    "text",
    [
        ".*",
        "|".join(NAME.format(number) for number in range(38)),
        ".*(" + "|".join(NAME.format(number) for number in range(38)) + ").*",
        "^(" + "|".join(f"team{number}" for number in range(100)) + r")\.(dev|prod)-[a-z_]{1,50}$",
        r"(?:[A-Za-z0-9_]+[.-]){2,4}events",
        r"(.*\.)?cdc\.(public|app)\..+",
        ".*orders.*europe.*v[0-9]{1,3}.*",
        ".*[0-9]{4}-[0-9]{2}-[0-9]{2}",
        "[a-z]{3,50}-.{1,200}",
    ],
)
def test_what_people_write_has_a_table_that_is_not_large(text: str) -> None:
    assert TopicRegex(text).size <= MAX_TABLE


@pytest.mark.parametrize(
    "text",
    [
        "(a|b)*a(a|b){200}",
        ".*0001|(a|b)*a(a|b){40}.*",
        ".*[ab].{30}",
        "(.*a.{20}b.{20})*c",
        "(.?){499}",
        "(" + "|".join("ab" * 240) + ")*",
    ],
)
def test_what_costs_too_much_with_some_names_is_refused_before_there_are_any(text: str) -> None:
    with pytest.raises(InvalidExpression, match="too complex"):
        TopicRegex(text)


def test_more_names_than_can_be_looked_at_are_refused() -> None:
    with pytest.raises(InvalidExpression, match="too many topics"):
        TopicRegex("a.*").among(["ab"] * 10, 19)
