"""Valid names of topics and groups, and patterns."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.core.errors import InvalidName
from mainstem.core.names import check_group, check_topic, is_internal, is_pattern, matches


@pytest.mark.parametrize("name", ["a", "orders", "a.b", "a_b", "A-1", "...", "-", "x" * 249])
def test_a_kafka_name_names_a_topic(name: str) -> None:
    check_topic(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "it is empty"),
        (".", "directories"),
        ("..", "directories"),
        ("../x", "only a-z"),
        ("/etc", "only a-z"),
        ("a/b", "only a-z"),
        ("a\x00", "only a-z"),
        ("a\n", "only a-z"),
        (" a", "only a-z"),
        ("%2e%2e%2f", "only a-z"),
        ("оrders", "only a-z"),  # noqa: RUF001 - a Cyrillic o
        ("ordérs", "only a-z"),
        ("orders*", "only a-z"),
        ("\u0661", "only a-z"),
        ("x" * 250, "250 characters"),
        ("x" * 1_000_000, "1000000 characters"),
        ("__mainstem_cursors", "kept for mainstem"),
    ],
)
def test_anything_else_does_not_and_the_error_says_why(name: str, reason: str) -> None:
    with pytest.raises(InvalidName, match=reason) as refusal:
        check_topic(name)

    assert len(str(refusal.value)) < 500


def test_internal_names_are_for_those_who_ask() -> None:
    check_topic("__mainstem_cursors", internal=True)

    assert is_internal("__mainstem_cursors")
    assert not is_internal("__consumer_offsets")
    check_topic("__consumer_offsets")


@pytest.mark.parametrize("name", ["billing", "a b", "console-consumer-1", "Größe", "x" * 255, "*"])
def test_printable_text_names_a_group(name: str) -> None:
    check_group(name)


@pytest.mark.parametrize(
    "name",
    ["", "a\x00", "a\nb", "\x1b[31m", "\u202eevil", "\ud800", "x" * 256, "\x7f", "a\u2028b"],
)
def test_what_cannot_be_printed_names_no_group(name: str) -> None:
    with pytest.raises(InvalidName):
        check_group(name)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("orders.*", "orders.eu"),
        ("orders.*", "orders."),
        ("*", ""),
        ("*", "anything"),
        ("*.eu", "orders.eu"),
        ("o*s.*u", "orders.eu"),
        ("o?ders", "orders"),
        ("orders", "orders"),
        ("**", "a"),
        ("*a*a", "banana"),
    ],
)
def test_a_pattern_matches(pattern: str, name: str) -> None:
    assert matches(pattern, name)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("orders.*", "orders"),
        ("orders.*", "Orders.eu"),
        ("orders", "orders.eu"),
        ("?", ""),
        ("", "a"),
        ("*b", "banana"),
        ("o?ders", "oders"),
        ("[a-z]", "a"),
    ],
)
def test_a_pattern_does_not_match(pattern: str, name: str) -> None:
    assert not matches(pattern, name)


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=10))
def test_patterns_match_as_the_shells_do(pattern: str, name: str) -> None:
    assert matches(pattern, name) == fnmatchcase(name, pattern)


def test_no_pattern_takes_longer_than_its_length_times_the_names() -> None:
    """With backtracking, the first two would not end in anybody's lifetime."""
    name = "a" * 249

    assert not matches("*a" * 124 + "*b", name)
    assert not matches("a*" * 124 + "b", name)
    assert not matches("*" * 10_000 + "b", name)


def test_a_pattern_is_told_from_a_name() -> None:
    assert is_pattern("orders.*")
    assert is_pattern("order?")
    assert not is_pattern("orders.eu")
