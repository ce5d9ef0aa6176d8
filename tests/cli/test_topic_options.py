"""Options for settings, derived from the settings themselves."""

import pytest

from mainstem.cli.arguments.topic_options import FIELDS, _docstrings, given, read, short
from mainstem.core.errors import InvalidSetting


def test_every_setting_has_a_sentence_of_help() -> None:
    texts = _docstrings()

    assert [name for name in FIELDS if not texts.get(name, "").endswith(".")] == []


def test_no_two_settings_share_a_name_on_the_command_line() -> None:
    assert len({short(name) for name in FIELDS}) == len(FIELDS)


@pytest.mark.parametrize(
    ("assignment", "name", "value"),
    [
        ("retention=7d", "retention_ms", 604_800_000),
        ("retention_ms=5000", "retention_ms", 5000),
        ("retention=none", "retention_ms", None),
        ("segment-bytes=64MiB", "segment_bytes", 64 << 20),
        ("compact=yes", "compact", True),
        ("partitions=4", "partitions", 4),
        ("overload=drop=oldest", "overload", "drop=oldest"),
    ],
)
def test_set_takes_any_setting_by_its_name(assignment: str, name: str, value: object) -> None:
    assert given((assignment,), {}) == {name: value}


@pytest.mark.parametrize(
    "assignment", ["colour=red", "retention=7", "partitions=many", "compact=perhaps", "hold=none"]
)
def test_what_means_nothing_is_refused(assignment: str) -> None:
    with pytest.raises(InvalidSetting):
        given((assignment,), {})


def test_what_was_not_given_stays_as_it_is() -> None:
    assert given((), {"compact": None, "retention_ms": (None,), "validate": "none"}) == {
        "retention_ms": None,
        "validate": None,
    }


def test_defaults_read_back_from_what_is_shown() -> None:
    assert read("hold_ms", "5s") == FIELDS["hold_ms"].default
    assert read("segment_bytes", "128 MiB") == FIELDS["segment_bytes"].default
