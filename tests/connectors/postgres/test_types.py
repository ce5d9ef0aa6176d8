"""Values of PostgreSQL's types, without a database: numbers, arrays, hstore, selection of rows."""

from datetime import datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.connectors.errors import SourceRefused
from mainstem.connectors.postgres.hstore import parse_hstore
from mainstem.connectors.postgres.types import Type, mapped, parse_array, timestamp_us, unscaled
from mainstem.connectors.settings import Decimals

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)


@given(st.integers(), st.integers(-20, 40))
def test_exact_numbers_are_written_as_java_writes_them(whole: int, scale: int) -> None:
    number = Decimal(whole).scaleb(-scale) if abs(whole) < 10**27 else Decimal(whole)
    scale = scale if abs(whole) < 10**27 else 0

    found = unscaled(number, scale)

    assert int.from_bytes(found, "big", signed=True) == whole
    # The shortest form, as that of BigInteger.
    assert len(found) == 1 or not (
        (found[0] == 0 and found[1] < 128) or (found[0] == 255 and found[1] >= 128)
    )


def test_a_number_of_ten_thousand_digits_is_exact() -> None:
    text = "9" * 10_000 + ".5"

    found = unscaled(Decimal(text), 1)

    assert int.from_bytes(found, "big", signed=True) == 10**10_001 - 5


def quoted(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case list():
            return "{" + ",".join(map(quoted, value)) + "}"
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


@given(st.lists(st.none() | TEXT | st.lists(TEXT, min_size=1), max_size=5))
def test_arrays_are_read_as_they_are_written(values: list[object]) -> None:
    assert parse_array(quoted(values), None) == values


def test_arrays_as_postgresql_writes_them() -> None:
    assert parse_array("{1,NULL,3}", int) == [1, None, 3]
    assert parse_array('[0:1]={a,"NULL"}', None) == ["a", "NULL"]
    assert parse_array("{}", None) == []
    assert parse_array(r'{"a,b","c\"d",e f}', None) == ["a,b", 'c"d', "e f"]


@given(st.text(max_size=30))
def test_any_text_is_an_array_or_is_refused(text: str) -> None:
    for parse in (lambda it: parse_array(it, None), parse_hstore):
        try:
            parse(text)
        except (ValueError, IndexError):
            continue


@given(st.dictionaries(TEXT, st.none() | TEXT, max_size=4))
def test_hstore_is_read_as_it_is_written(pairs: dict[str, str | None]) -> None:
    text = ", ".join(f"{quoted(key)}=>{quoted(value)}" for key, value in pairs.items())

    assert parse_hstore(text) == pairs


def test_times_before_christ_and_far_in_the_future() -> None:
    assert timestamp_us("1970-01-01 00:00:00+00") == 0
    assert timestamp_us("2000-02-29 12:00:00.5+02") == 951_818_400_500_000
    assert timestamp_us("0001-12-31 00:00:00 BC") == -62_135_683_200_000_000
    assert timestamp_us("294276-12-31 23:59:59.999999") == 9_224_318_015_999_999_999


def test_a_number_that_is_none_stops_with_what_to_do() -> None:
    numeric = Type(1700, "numeric", "b", 0, -1, 0, is_array=False)
    precise = mapped(1700, -1, lambda _: numeric, Decimals.PRECISE)
    double = mapped(1700, -1, lambda _: numeric, Decimals.DOUBLE)
    assert precise.convert is not None
    assert double.convert is not None

    assert double.convert("NaN") == "NaN"
    with pytest.raises(SourceRefused, match="--decimals string"):
        precise.convert("NaN")


TIMESTAMPTZ = Type(1184, "timestamptz", "b", 0, -1, 0, is_array=False)


@given(st.datetimes(), st.integers(0, 6))
def test_times_are_read_as_postgresql_writes_them(moment: datetime, digits: int) -> None:
    moment = moment.replace(
        microsecond=moment.microsecond // 10 ** (6 - digits) * 10 ** (6 - digits)
    )
    plain = str(moment).rstrip("0") if moment.microsecond else str(moment)
    since = moment - datetime(1970, 1, 1)
    us = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    zoned = mapped(1184, -1, lambda _: TIMESTAMPTZ, Decimals.PRECISE).convert

    assert timestamp_us(plain) == timestamp_us(f"{plain}+00") == us
    assert zoned is not None
    assert (
        zoned(f"{plain}+00")
        == zoned(f"{plain}+00:00")
        == f"{moment.isoformat('T', 'microseconds')}Z"
    )
