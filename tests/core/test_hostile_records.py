"""Hostile record batches: the result is CorruptBatch or events, in bounded memory."""

import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.core.handmade_batches import CODECS, NOW_MS, event_lists, record, sealed, varint

from mainstem.core import compression
from mainstem.core.batch import HEADER_SIZE, Buffer, seal
from mainstem.core.errors import CorruptBatch
from mainstem.core.event import Event
from mainstem.core.records import build, check_records, events, keys, retain

ATTRIBUTES = b"\x00"
NOW = varint(0)
FIRST = varint(0)
KEY = varint(1) + b"k"
VALUE = varint(1) + b"v"
NO_HEADERS = varint(0)
GOOD = record(ATTRIBUTES, NOW, FIRST, KEY, VALUE, NO_HEADERS)


def read_all(batch: Buffer) -> list[Event]:
    """Read a batch in every way there is; all must agree on whether it is sound."""
    found = list(events(batch))
    assert len(list(keys(batch))) == len(found)
    assert retain(batch, lambda *_: True) is batch
    return found


def headers(count: int, *fields: bytes) -> bytes:
    return record(ATTRIBUTES, NOW, FIRST, KEY, VALUE, varint(count), *fields)


def test_the_record_that_all_others_are_made_from_is_good() -> None:
    (event,) = read_all(sealed(GOOD))

    assert (event.key, event.value, event.timestamp_ms) == (b"k", b"v", NOW_MS)
    check_records(sealed(GOOD))


LIES = {
    "no record": sealed(b""),
    "too many announced": sealed(GOOD, count=2),
    "two billion announced": sealed(GOOD, count=2**31 - 1),
    "too few announced": sealed(GOOD + GOOD, count=1, last_offset_delta=1),
    "negative count": sealed(GOOD, count=-1),
    "a byte left over": sealed(GOOD + b"\x00"),
    "record length 0": sealed(record(length=0)),
    "record length -1": sealed(record(length=-1)),
    "record length negative by its size": sealed(record(GOOD[1:], length=-len(GOOD))),
    "record length past the end": sealed(record(GOOD[1:], length=len(GOOD))),
    "record length before its fields end": sealed(record(GOOD[1:], length=len(GOOD) - 2)),
    "record length 2^31-1": sealed(record(GOOD[1:], length=2**31 - 1)),
    "record length 2^40": sealed(record(GOOD[1:], length=2**40)),
    "key length -2": sealed(
        record(ATTRIBUTES, NOW, FIRST, varint(-2), VALUE, NO_HEADERS),
    ),
    "key length past the end": sealed(
        record(ATTRIBUTES, NOW, FIRST, varint(99) + b"k", VALUE, NO_HEADERS)
    ),
    "key length 2^31-1": sealed(
        record(ATTRIBUTES, NOW, FIRST, varint(2**31 - 1) + b"k", VALUE, NO_HEADERS)
    ),
    "value length -2": sealed(record(ATTRIBUTES, NOW, FIRST, KEY, varint(-2), NO_HEADERS)),
    "value length -2^31": sealed(record(ATTRIBUTES, NOW, FIRST, KEY, varint(-(2**31)))),
    "value length 2^31-1": sealed(
        record(ATTRIBUTES, NOW, FIRST, KEY, varint(2**31 - 1) + b"v", NO_HEADERS)
    ),
    "value reaches into the next record": sealed(
        record(ATTRIBUTES, NOW, FIRST, KEY, varint(5) + b"v", NO_HEADERS) + GOOD,
        count=2,
    ),
    "endless number": sealed(record(ATTRIBUTES, NOW, FIRST, b"\xff" * 20)),
    "number of six bytes": sealed(record(ATTRIBUTES, NOW, FIRST, b"\x80" * 5 + b"\x00", VALUE)),
    "number over 32 bits": sealed(record(ATTRIBUTES, NOW, FIRST, b"\xfe\xff\xff\xff\x7f")),
    "endless timestamp": sealed(record(ATTRIBUTES, b"\xff" * 11, FIRST, KEY, VALUE, NO_HEADERS)),
    "timestamp over 64 bits": sealed(
        record(ATTRIBUTES, b"\xfe" + b"\xff" * 8 + b"\x03", FIRST, KEY, VALUE, NO_HEADERS)
    ),
    "timestamp after the end of time": sealed(
        record(ATTRIBUTES, varint(2**63 - 1), FIRST, KEY, VALUE, NO_HEADERS)
    ),
    "timestamp before time": sealed(
        record(ATTRIBUTES, varint(-NOW_MS - 2), FIRST, KEY, VALUE, NO_HEADERS)
    ),
    "offset delta -1": sealed(record(ATTRIBUTES, NOW, varint(-1), KEY, VALUE, NO_HEADERS)),
    "offset delta over the last": sealed(
        record(ATTRIBUTES, NOW, varint(1), KEY, VALUE, NO_HEADERS)
    ),
    "offset delta twice": sealed(GOOD + GOOD, count=2),
    "header count -1": sealed(headers(-1)),
    "header count 1 and no header": sealed(headers(1)),
    "header count 1000000": sealed(headers(1_000_000)),
    "header count 2^31-1": sealed(headers(2**31 - 1, b"\x00\x01")),
    "a million headers": sealed(headers(1_000_000, b"\x00\x01" * 1_000_000)),
    "null header key": sealed(headers(1, varint(-1), varint(0))),
    "header key length -2": sealed(headers(1, varint(-2), varint(0))),
    "header key past the record": sealed(headers(1, varint(50) + b"h", varint(0))),
    "header value length -2": sealed(headers(1, varint(1) + b"h", varint(-2))),
    "header value length -2 before a byte": sealed(headers(1, varint(1) + b"h", varint(-2) + b"x")),
    "header value past the record": sealed(headers(1, varint(1) + b"h", varint(2**31 - 1))),
    "header value reaches into the next record": sealed(
        headers(1, varint(1) + b"h", varint(3)) + GOOD, count=2
    ),
    "a byte after the headers": sealed(headers(1, varint(0), varint(-1), b"\x00")),
}


@pytest.mark.parametrize("case", LIES)
def test_a_lie_is_refused(case: str) -> None:
    batch = LIES[case]

    for look in (lambda: list(events(batch)), lambda: list(keys(batch))):
        with pytest.raises(CorruptBatch):
            look()
    with pytest.raises(CorruptBatch):
        check_records(batch)
    with pytest.raises(CorruptBatch):
        retain(batch, lambda *_: True)


@pytest.mark.parametrize("case", LIES)
def test_a_lie_costs_no_memory(case: str) -> None:
    batch = LIES[case]
    tracemalloc.start()

    with pytest.raises(CorruptBatch):
        list(events(batch))

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < len(batch) + 200_000


@pytest.mark.parametrize("codec", range(1, 5))
@pytest.mark.parametrize("case", ["too many announced", "key length -2", "a byte left over"])
def test_a_lie_in_compressed_records_is_refused(case: str, codec: int) -> None:
    plain = LIES[case]
    count = 2 if case == "too many announced" else 1
    packed = bytes(compression.compress(codec, bytes(plain[HEADER_SIZE:])))

    with pytest.raises(CorruptBatch):
        read_all(sealed(packed, count=count, attributes=codec))


@pytest.mark.parametrize("codec", range(1, 5))
def test_a_plain_body_under_a_codec_is_refused(codec: int) -> None:
    with pytest.raises(CorruptBatch, match=compression.NAMES[codec]):
        events(sealed(GOOD, attributes=codec))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_refused(codec: int) -> None:
    with pytest.raises(CorruptBatch, match=f"codec {codec}"):
        events(sealed(GOOD, attributes=codec))


def test_the_error_names_the_record() -> None:
    bad = record(ATTRIBUTES, NOW, varint(1), varint(-2), VALUE, NO_HEADERS)
    reading = events(sealed(GOOD + bad, count=2, base_offset=70))

    assert next(reading).offset == 70
    with pytest.raises(CorruptBatch, match=r"record 1 of 2 .* at offset 70: key length -2"):
        next(reading)


def second(offset_delta: int, timestamp_delta: int = 0) -> bytes:
    return record(ATTRIBUTES, varint(timestamp_delta), varint(offset_delta), KEY, VALUE, NO_HEADERS)


ONLY_DEEPLY_WRONG = {
    "offsets with a gap": sealed(GOOD + second(2), count=2, last_offset_delta=2),
    "offsets not from 0": sealed(second(1), last_offset_delta=1),
    "timestamp over the maximum": sealed(GOOD + second(1, 5), count=2),
    "header name that is not UTF-8": sealed(headers(1, varint(1) + b"\xff", varint(-1))),
}


@pytest.mark.parametrize("case", ONLY_DEEPLY_WRONG)
def test_what_can_be_read_but_no_producer_may_send_is_refused_by_the_deep_check(case: str) -> None:
    batch = ONLY_DEEPLY_WRONG[case]

    read_all(batch)

    with pytest.raises(CorruptBatch):
        check_records(batch)


def test_a_header_name_that_is_not_utf8_is_read_as_well_as_possible() -> None:
    (event,) = read_all(ONLY_DEEPLY_WRONG["header name that is not UTF-8"])

    assert event.headers == (("\ufffd", None),)


def read_or_corrupt(batch: Buffer) -> int | None:
    """Return how many events there are, None if the batch is corrupt."""
    with suppress(CorruptBatch):
        check_records(batch)
    try:
        return len(read_all(batch))
    except CorruptBatch:
        return None


@settings(max_examples=300)
@given(st.binary(max_size=200), st.integers(0, 7), st.integers(-1, 5))
@example(GOOD, 0, 1)
def test_random_records_are_events_or_corrupt(body: bytes, codec: int, count: int) -> None:
    batch = sealed(body, count=count, attributes=codec, last_offset_delta=10)

    assert read_or_corrupt(batch) in {None, count}


@given(st.binary(max_size=200))
def test_random_bytes_are_no_batch(data: bytes) -> None:
    with pytest.raises(CorruptBatch):
        events(data)


@settings(max_examples=400)
@given(event_lists, st.sampled_from(CODECS), st.data())
def test_a_mutated_batch_with_a_fitting_checksum_is_events_or_corrupt(
    written: list[Event], codec: str, data: st.DataObject
) -> None:
    batch = build(written, now_ms=NOW_MS, compression=codec)
    places = st.integers(HEADER_SIZE, len(batch) - 1)
    for place, byte in data.draw(
        st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=4)
    ):
        batch[place] = byte
    seal(batch)

    assert read_or_corrupt(batch) in {None, len(written)}


def test_a_batch_of_the_smallest_events_is_read_one_by_one() -> None:
    count = 20_000
    body = b"".join(record(b"\x00\x00", varint(number), b"\x01\x01\x00") for number in range(count))
    packed = bytes(compression.compress(compression.ZSTD, body))
    batch = sealed(packed, count=count, attributes=compression.ZSTD)
    tracemalloc.start()

    assert sum(1 for _ in events(batch)) == count

    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3 * len(body)


def test_a_header_name_that_was_read_leniently_is_still_refused_strictly() -> None:
    batch = sealed(headers(1, varint(1) + b"\xff", varint(1) + b"v"))

    (event,) = events(batch)

    assert event.headers == (("\ufffd", b"v"),)
    with pytest.raises(CorruptBatch):
        check_records(batch)
