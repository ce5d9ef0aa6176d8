"""Sizes, durations and times, as people write and read them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.cli.arguments.units import human_bytes, human_ms, parse_bytes, parse_ms, parse_time


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1048576", 1 << 20),
        ("64KiB", 64 << 10),
        ("64k", 64 << 10),
        ("64MiB", 64 << 20),
        ("1.5G", 3 << 29),
        ("10GB", 10**10),
        ("10 b", 10),
    ],
)
def test_a_size_is_bytes_or_has_a_unit(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "MiB", "-1", "1.5", "1 MiB MiB", "1e9", "inf", "64 parsecs"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("text", "duration"),
    [("250ms", 250), ("90s", 90_000), ("15m", 900_000), ("12h", 43_200_000), ("7d", 604_800_000)],
)
def test_a_duration_has_a_unit(text: str, duration: int) -> None:
    assert parse_ms(text) == duration
    assert parse_ms(f"{duration}ms") == duration


def test_a_duration_without_unit_could_mean_anything_and_is_refused() -> None:
    with pytest.raises(ValueError, match="a number and a unit"):
        parse_ms("7")

    assert parse_ms("0") == 0
    assert parse_ms("7", bare=True) == 7


@given(st.integers(0, 10**13))
def test_a_duration_reads_back_as_it_was_written(duration: int) -> None:
    assert parse_ms(human_ms(duration)) == duration


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (1_048_575, "1 MiB"),
        (1_000_000, "977 KiB"),
        (1 << 50, "1024 TiB"),
    ],
)
def test_sizes_are_short(size: int, text: str) -> None:
    assert human_bytes(size) == text


def test_a_time_is_ms_since_1970_or_iso_or_ago() -> None:
    now = datetime(2026, 11, 15, 12, tzinfo=UTC)

    assert parse_time("1500") == datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)
    assert parse_time("2026-11-15T08:00:00Z") == now - timedelta(hours=4)
    assert parse_time("2026-11-15T10:00:00+02:00") == now - timedelta(hours=4)
    assert parse_time("-90m", now) == now - timedelta(minutes=90)
    assert parse_time("2026-11-15").tzinfo is not None


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01", "-1x", "1.5"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a"):
        parse_time(text)
