"""Decoding into Arrow gives what reading the events one by one gives, whatever the bytes."""

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.core.golden_batches import BATCHES, EVENTS
from tests.core.handmade_batches import CODECS, NOW_MS, event_lists, record, sealed, varint

from mainstem.core.batch import place, read_header, seal, set_last_offset, stamp
from mainstem.core.errors import CorruptBatch
from mainstem.core.event import Event
from mainstem.core.record_parser import walk
from mainstem.core.records import build, events, retain
from mainstem.remote.arrow import decoding
from mainstem.remote.arrow.decoding import record_batches

ALL = (0, 2**62)
LATEST_MS = (2**63 - 1) // 1000
"""The last millisecond that fits into Spark's microseconds."""


def decoded(batches: list[bytearray], start: int = 0, end: int = 2**62) -> list[Event]:
    views = [memoryview(each) for each in batches]
    return [
        event
        for found in record_batches(views, "orders", 3, start, end)
        for event in rows_of(found)
    ]


def rows_of(found: pa.RecordBatch) -> list[Event]:
    # Arrow has no Python object for years after 9999.
    stamps = found.column("timestamp").cast("int64").to_pylist()
    return [
        Event(
            row["value"],
            row["key"],
            tuple((header["key"], header["value"]) for header in row["headers"]),
            -1 if stamp_us is None else stamp_us // 1000,
            row["topic"],
            row["partition"],
            row["offset"],
        )
        for row, stamp_us in zip(found.drop_columns("timestamp").to_pylist(), stamps, strict=True)
    ]


def read(batches: list[bytearray]) -> list[Event]:
    """Return the events as the core reads them."""
    return [
        Event(
            each.value,
            each.key,
            each.headers,
            each.timestamp_ms if each.timestamp_ms <= LATEST_MS else -1,
            "orders",
            3,
            each.offset,
        )
        for batch in batches
        for each in events(batch)
    ]


@given(
    st.lists(st.tuples(event_lists, st.sampled_from(CODECS)), min_size=1, max_size=4),
    st.integers(0, 2**40),
)
@settings(max_examples=200)
def test_all_events_of_many_batches_are_decoded(
    lists: list[tuple[list[Event], str]], first: int
) -> None:
    batches, offset = [], first
    for some, codec in lists:
        batch = build(some, now_ms=NOW_MS, compression=codec)
        place(batch, offset, 0)
        offset += len(some)
        batches.append(batch)

    assert decoded(batches) == read(batches)


@given(
    st.lists(st.tuples(st.sampled_from([0, 3, 57, 58, 70, 9000]), st.integers(1, 700)), max_size=4),
    st.integers(0, 2**40),
)
@settings(max_examples=60)
def test_runs_of_events_of_one_length_are_decoded(runs: list[tuple[int, int]], first: int) -> None:
    some = [Event(b"%d" % n + b"x" * size) for size, count in runs for n in range(count)]
    batches = [
        build(some or [Event(b"x")], now_ms=NOW_MS),
        build(some[::-1] or [Event(b"y")], now_ms=NOW_MS),
    ]
    place(batches[0], first, 0)
    place(batches[1], first + max(1, len(some)), 0)

    assert decoded(batches) == read(batches)


@given(st.integers(0, 399), st.integers(0, 255), st.integers(0, 9))
@settings(max_examples=150)
def test_a_run_with_a_record_that_lies_is_what_the_core_says(
    where: int, byte: int, place_in_it: int
) -> None:
    batch = build([Event(b"x" * 20, b"key") for _ in range(400)], now_ms=NOW_MS)
    starts = [0]
    for _, _, _, _, _, _, end in walk(read_header(batch), bytes(batch[61:]), 0):
        starts.append(end)
    batch[61 + starts[where] + place_in_it] = byte
    seal(batch)

    agrees(batch)


def test_batches_that_unpack_to_a_lot_are_decoded_a_few_at_a_time() -> None:
    batches = []
    for number in range(5):
        batch = build(
            [Event(bytes(decoding.AT_ONCE_BYTES // 2))], now_ms=NOW_MS, compression="zstd"
        )
        place(batch, number, 0)
        batches.append(memoryview(batch))

    found = [each.num_rows for each in record_batches(batches, "orders", 0, *ALL)]

    assert found == [2, 2, 1]


def test_batches_outside_of_the_range_are_not_even_looked_at() -> None:
    batches = []
    for first in (10, 20, 30):
        batch = build([Event(b"%d" % n) for n in range(10)], now_ms=NOW_MS)
        place(batch, first, 0)
        batches.append(batch)
    for other in (0, 2):
        batches[other][-1] ^= 1

    assert [each.offset for each in decoded(batches, 20, 30)] == list(range(20, 30))


@pytest.mark.parametrize("codec", CODECS)
def test_what_another_implementation_packed_is_decoded(codec: str) -> None:
    batch = bytearray.fromhex(BATCHES[codec])

    found = decoded([batch])

    assert [(each.key, each.value, each.headers, each.timestamp_ms) for each in found] == [
        (each.key, each.value, each.headers, each.timestamp_ms) for each in EVENTS
    ]


def test_a_range_may_begin_and_end_inside_of_batches() -> None:
    batches = []
    for first in (10, 20):
        batch = build([Event(b"%d" % n) for n in range(10)], now_ms=NOW_MS)
        place(batch, first, 0)
        batches.append(batch)

    assert [each.offset for each in decoded(batches, 17, 23)] == [17, 18, 19, 20, 21, 22]
    assert decoded(batches, 30, 40) == []
    assert decoded(batches, 0, 10) == []


def test_a_batch_that_compaction_thinned_out_keeps_its_offsets() -> None:
    whole = build([Event(b"%d" % n, b"%d" % n) for n in range(10)], now_ms=NOW_MS)
    place(whole, 100, 0)

    thin = retain(whole, lambda offset, _key, _value: offset in (101, 105, 109))
    assert thin is not None

    assert [each.offset for each in decoded([bytearray(thin)])] == [101, 105, 109]


def test_a_batch_from_which_compaction_took_everything_is_passed_over() -> None:
    empty = sealed(b"", count=0, last_offset_delta=9)
    full = build([Event(b"x")], now_ms=NOW_MS)
    place(full, 10, 0)

    assert [each.offset for each in decoded([empty, full])] == [10]
    assert decoded([empty]) == []


def test_events_stamped_by_the_log_have_the_time_of_their_batch() -> None:
    batch = build([Event(b"x", timestamp_ms=5), Event(b"y", timestamp_ms=7)], now_ms=NOW_MS)
    stamp(batch, NOW_MS)

    (found,) = record_batches([memoryview(batch)], "orders", 0, *ALL)

    assert found.column("timestampType").to_pylist() == [1, 1]
    assert found.column("timestamp").cast("int64").to_pylist() == [NOW_MS * 1000] * 2


@given(st.binary(max_size=60), st.integers(1, 4), st.integers(0, 9))
@example(record(b"\0", varint(0), varint(0), varint(2**31), b"", varint(-1), varint(0)), 1, 0)
@example(record(b"\0", varint(0), varint(0), varint(-1), varint(-1), varint(0), length=-4), 1, 0)
@example(record(b"\0", varint(0), varint(0), varint(2**62), varint(-1), varint(0)), 1, 0)
@example(record(b"\0", varint(0), varint(0), varint(-1), varint(-1), varint(0), b"more"), 1, 0)
@example(record(b"\0", varint(-(2**50)), varint(0), varint(-1), varint(-1), varint(0)), 1, 0)
@example(record(b"\0", varint(0), varint(9), varint(-1), varint(-1), varint(0)), 1, 0)
@example(record(b"\0", varint(0), varint(0), varint(-2), varint(-1), varint(0)), 1, 0)
@example(record(b"\0", varint(0), varint(0), varint(-1), varint(-2), varint(0)), 1, 0)
@example(record(b"\0", varint(0), varint(0), varint(-1), varint(-1), varint(0)) * 2, 2, 1)
@settings(max_examples=500)
def test_any_bytes_are_records_or_damage(body: bytes, count: int, delta: int) -> None:
    batch = sealed(body, count=count, last_offset_delta=delta)

    agrees(batch)


@given(event_lists, st.data())
@settings(max_examples=500)
def test_a_flipped_bit_under_a_good_checksum_is_what_the_core_says(
    some: list[Event], data: st.DataObject
) -> None:
    good = build(some, now_ms=NOW_MS)
    bit = data.draw(st.integers(61 * 8, len(good) * 8 - 1))
    good[bit // 8] ^= 1 << bit % 8
    set_last_offset(good, len(some) - 1)

    agrees(good)


def agrees(batch: bytearray) -> None:
    """Check that a batch is refused by both or read by both, as the same."""
    try:
        expected = read([batch])
    except CorruptBatch:
        with pytest.raises(CorruptBatch):
            decoded([batch])
    else:
        assert decoded([batch]) == expected


def test_a_damaged_batch_is_refused() -> None:
    batch = build([Event(b"x" * 100)], now_ms=NOW_MS)
    batch[-5] ^= 1

    with pytest.raises(CorruptBatch, match="CRC"):
        decoded([batch])


@given(
    st.lists(
        st.tuples(event_lists, st.sampled_from(CODECS), st.integers(0, 2), st.booleans()),
        max_size=6,
    ),
    st.integers(0, 30),
    st.integers(0, 60),
)
@settings(max_examples=300)
def test_offsets_alone_are_those_of_the_events(
    lists: list[tuple[list[Event], str, int, bool]], start: int, length: int
) -> None:
    batches, offset = [], 0
    for some, codec, gap, is_compacted in lists:
        offset += gap
        batch = build(some, now_ms=NOW_MS, compression=codec)
        place(batch, offset, 0)
        offset += len(some)
        if is_compacted:
            thin = retain(batch, lambda offset, _key, _value: offset % 2 == 0)
            batch = bytearray(thin or batch)
        batches.append(batch)

    views = [memoryview(each) for each in batches]
    found = [
        row
        for each in record_batches(
            views, "orders", 3, start, start + length, frozenset({"offset", "partition"})
        )
        for row in each.to_pylist()
    ]

    events = decoded(batches, start, start + length)
    assert found == [{"partition": 3, "offset": each.offset} for each in events]


def test_offsets_alone_are_checked_but_not_uncompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = build([Event(b"x" * 100)] * 3, now_ms=NOW_MS, compression="zstd")
    wanted = frozenset({"offset"})
    monkeypatch.delattr(decoding, "unpack")

    (found,) = record_batches([memoryview(batch)], "orders", 0, *ALL, wanted)

    assert found.to_pydict() == {"offset": [0, 1, 2]}
    batch[-5] ^= 1
    with pytest.raises(CorruptBatch, match="CRC"):
        list(record_batches([memoryview(batch)], "orders", 0, *ALL, wanted))
