"""Events into batches and back, and what compaction does to a batch."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.golden_batches import BATCHES, EVENTS, TRANSACTIONAL
from tests.core.handmade_batches import CODECS, NOW_MS, event_lists, events_without_place, sealed

from mainstem.core.batch import check_header, place, read_header
from mainstem.core.errors import CorruptBatch, InvalidEvent, InvalidSetting
from mainstem.core.event import NO_TIMESTAMP, Event, Headers
from mainstem.core.records import (
    build,
    build_one,
    check_records,
    emptied,
    events,
    keys,
    packed,
    retain,
)

Content = tuple[bytes | None, bytes | None, Headers, int]


def content(event: Event) -> Content:
    return event.value, event.key, event.headers, event.timestamp_ms


def contents(found: Iterable[Event]) -> list[Content]:
    return [content(event) for event in found]


@pytest.mark.parametrize("codec", CODECS)
def test_what_another_implementation_packs_reads_as_the_same_events(codec: str) -> None:
    batch = bytes.fromhex(BATCHES[codec])

    assert contents(events(batch)) == contents(EVENTS)
    check_records(batch)


def test_the_bytes_are_those_another_implementation_writes() -> None:
    assert build(EVENTS, now_ms=0).hex() == BATCHES["none"]
    assert build(EVENTS, now_ms=0, compression="snappy").hex() == BATCHES["snappy"]
    transactional = build(
        EVENTS,
        now_ms=0,
        producer_id=4711,
        producer_epoch=3,
        base_sequence=42,
        transactional=True,
    )
    assert transactional.hex() == TRANSACTIONAL


@given(event_lists, st.sampled_from(CODECS))
def test_what_is_built_passes_every_check_and_reads_back(written: list[Event], codec: str) -> None:
    batch = build(written, now_ms=NOW_MS, compression=codec)

    if max(event.timestamp_ms for event in written) >= written[0].timestamp_ms:
        check_header(batch)
    check_records(batch)
    assert contents(events(batch)) == contents(written)


@given(events_without_place | st.builds(Event, st.binary()))
def test_one_event_by_itself_becomes_the_same_batch(event: Event) -> None:
    assert build_one(event, NOW_MS) == build([event], now_ms=NOW_MS)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 2047, 2048, 8191, 8192, 1_100_000])
def test_every_length_of_length_is_written_and_read(size: int) -> None:
    written = [Event(b"v" * size, b"k" * size, (("h" * size, b"x" * size),), NOW_MS)]

    assert contents(events(build(written, now_ms=0))) == contents(written)
    assert contents(events(build_one(written[0], 0))) == contents(written)
    assert contents(events(build(written * 2, now_ms=0))) == contents(written * 2)


def test_a_large_batch_keeps_the_order_and_numbers_its_events() -> None:
    written = [Event(b"%d" % number, timestamp_ms=NOW_MS + number) for number in range(20_000)]
    batch = build(written, now_ms=0)
    place(batch, 1000, 0)

    read = list(events(batch, topic="orders", partition=3))

    assert contents(read) == contents(written)
    assert [event.offset for event in read] == list(range(1000, 21_000))
    assert {(event.topic, event.partition) for event in read} == {("orders", 3)}


def test_events_are_read_from_the_middle_of_a_batch() -> None:
    batch = build([Event(b"0"), Event(b"1"), Event(b"2")], now_ms=NOW_MS)
    place(batch, 10, 0)

    assert [event.value for event in events(batch, from_offset=11)] == [b"1", b"2"]
    assert list(events(batch, from_offset=13)) == []


@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_events_own_their_bytes_whatever_buffer_they_come_from(buffer: type) -> None:
    (event,) = events(buffer(bytes(build([Event(b"v", b"k", (("h", b"x"),))], now_ms=NOW_MS))))

    assert type(event.value) is type(event.key) is type(event.headers[0][1]) is bytes


def test_events_without_a_time_get_the_time_given_and_others_keep_theirs() -> None:
    written = [Event(b"a"), Event(b"b", timestamp_ms=5), Event(b"c")]

    batch = build(written, now_ms=NOW_MS)

    assert [event.timestamp_ms for event in events(batch)] == [NOW_MS, 5, NOW_MS]
    assert read_header(batch).base_timestamp == read_header(batch).max_timestamp == NOW_MS


def test_a_time_before_the_first_one_is_kept() -> None:
    batch = build(
        [Event(b"a", timestamp_ms=NOW_MS), Event(b"b", timestamp_ms=0), Event(b"c")], now_ms=1
    )

    assert [event.timestamp_ms for event in events(batch)] == [NOW_MS, 0, 1]


@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("timestamp_ms", [-2, -(2**63), 2**63])
def test_an_impossible_time_is_refused(timestamp_ms: int, position: int) -> None:
    written = [Event(b"a", timestamp_ms=1), Event(b"b", timestamp_ms=2)]
    written[position] = Event(b"c", timestamp_ms=timestamp_ms)

    with pytest.raises(InvalidEvent, match=str(timestamp_ms)):
        build(written, now_ms=NOW_MS)
    with pytest.raises(InvalidEvent, match=str(timestamp_ms)):
        build_one(written[position], NOW_MS)


def test_no_events_are_no_batch() -> None:
    with pytest.raises(InvalidEvent, match="at least one event"):
        build([], now_ms=NOW_MS)


def test_an_unknown_compression_is_refused_by_name() -> None:
    with pytest.raises(InvalidSetting, match=r"'brotli'; there are none, gzip, snappy, lz4, zstd"):
        build([Event(b"v")], now_ms=NOW_MS, compression="brotli")


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\x00",
        b"line\nline\r\n",
        "\u202eright to left\u202c שלום".encode(),
        b"\x80\x04\x95",
        b"\xac\xed\x00\x05sr",
        b"\xff" * 10,
    ],
    ids=["empty", "NUL", "newline", "right to left", "pickle", "Java object", "not text"],
)
def test_a_value_is_bytes_and_comes_back_untouched(value: bytes) -> None:
    (event,) = events(build([Event(value, value)], now_ms=NOW_MS))

    assert (event.value, event.key) == (value, value)


def test_an_empty_value_is_not_an_absent_one() -> None:
    written = [Event(b"", b""), Event(None, None)]

    read = list(events(build(written, now_ms=NOW_MS)))

    assert [(event.value, event.key) for event in read] == [(b"", b""), (None, None)]


def test_header_names_must_be_writable_and_their_number_has_a_bound() -> None:
    with pytest.raises(InvalidEvent, match="UTF-8"):
        build([Event(b"v", headers=(("\ud800", b""),))], now_ms=NOW_MS)
    with pytest.raises(InvalidEvent, match="10001 headers"):
        build([Event(b"v", headers=(("h", None),) * 10_001)], now_ms=NOW_MS)
    most = Event(b"v", headers=(("h", None),) * 10_000, timestamp_ms=NOW_MS)
    assert contents(events(build([most], now_ms=NOW_MS))) == [content(most)]


def test_a_control_batch_has_no_events_and_compaction_leaves_it_alone() -> None:
    marker = sealed(b"\x20\x00\x00\x00\x08\x00\x00\x00\x01\x0c" + bytes(7), attributes=0x20)

    assert list(events(marker)) == []
    assert list(keys(marker)) == []
    assert retain(marker, lambda *_: False) is marker


def test_an_emptied_batch_has_no_events() -> None:
    for codec in range(5):
        batch = sealed(b"", count=0, last_offset_delta=3, attributes=codec)

        assert list(events(batch)) == []
        assert list(keys(batch)) == []


@pytest.mark.parametrize("codec", CODECS)
def test_emptying_a_batch_leaves_its_place_its_producer_and_when_it_was_done(codec: str) -> None:
    batch = build(
        EVENTS, now_ms=0, compression=codec, producer_id=9, producer_epoch=1, base_sequence=5
    )
    place(batch, 50, 2)

    empty = emptied(batch, NOW_MS + 5)

    old, new = read_header(batch), check_header(empty, stored=True)
    assert list(events(empty)) == []
    assert new == old._replace(
        size=len(empty), crc=new.crc, attributes=0, base_timestamp=NOW_MS + 5, count=0
    )


@pytest.mark.parametrize("codec", CODECS)
def test_keys_tell_offset_key_value_and_time(codec: str) -> None:
    batch = build(EVENTS, now_ms=0, compression=codec)
    place(batch, 100, 0)

    assert list(keys(batch)) == [
        (100, b"order-1", True, 1_700_000_000_000),
        (101, None, True, 1_700_000_000_250),
        (102, b"order-1", False, 1_699_999_999_000),
        (103, b"", True, 1_700_000_000_250),
    ]


@given(st.data(), event_lists, st.sampled_from(CODECS))
def test_retained_events_are_untouched_and_stand_where_they_stood(
    data: st.DataObject, written: list[Event], codec: str
) -> None:
    batch = build(
        written,
        now_ms=NOW_MS,
        compression=codec,
        producer_id=9,
        producer_epoch=1,
        base_sequence=5,
    )
    place(batch, 50, 2)
    before = {event.offset: event for event in events(batch)}
    kept = data.draw(st.sets(st.sampled_from(sorted(before))))

    thinned = retain(batch, lambda offset, key, has_value: offset in kept)

    if not kept:
        assert thinned is None
    elif len(kept) == len(before):
        assert thinned is batch
    else:
        assert thinned is not None
        assert {event.offset: event for event in events(thinned)} == {
            offset: before[offset] for offset in kept
        }
        old, new = read_header(batch), check_header(thinned, stored=True)
        assert new == old._replace(
            size=len(thinned),
            crc=new.crc,
            count=len(kept),
            max_timestamp=max(before[offset].timestamp_ms for offset in kept),
        )


def test_retain_is_asked_with_offset_key_and_whether_there_is_a_value() -> None:
    batch = build(EVENTS, now_ms=0)
    asked: list[tuple[int, bytes | None, bool]] = []

    def keep(offset: int, key: bytes | None, has_value: bool) -> bool:
        asked.append((offset, key, has_value))
        return True

    retain(batch, keep)

    assert asked == [
        (0, b"order-1", True),
        (1, None, True),
        (2, b"order-1", False),
        (3, b"", True),
    ]


def test_a_thinned_batch_can_be_thinned_again_and_is_no_producers_batch() -> None:
    batch = build([Event(b"%d" % number) for number in range(5)], now_ms=NOW_MS)

    once = retain(batch, lambda offset, key, has_value: offset > 1)
    assert once is not None
    twice = retain(once, lambda offset, key, has_value: offset != 3)
    assert twice is not None

    assert [(event.offset, event.value) for event in events(twice)] == [(2, b"2"), (4, b"4")]
    assert read_header(twice).last_offset == 4
    with pytest.raises(CorruptBatch, match="offset delta 2"):
        check_records(twice)


def test_a_deep_check_tells_which_event_lacks_the_key_that_compaction_needs() -> None:
    batch = build([Event(b"a", b"k"), Event(b"b"), Event(b"c")], now_ms=NOW_MS)

    check_records(batch)
    with pytest.raises(InvalidEvent, match="event 1 of the batch has no key") as refused:
        check_records(batch, needs_keys=True)
    assert refused.value.which == [1, 2]


def test_no_timestamp_at_all_is_read_as_such() -> None:
    batch = bytearray(build([Event(b"v", timestamp_ms=0)], now_ms=0))
    without = sealed(bytes(batch[61:]), base_timestamp=-1, max_timestamp=-1)

    assert next(events(without)).timestamp_ms == NO_TIMESTAMP


@given(event_lists, st.sampled_from(CODECS), st.sampled_from(CODECS))
def test_a_batch_packed_in_another_way_holds_the_same(
    given_events: list[Event], one: str, other: str
) -> None:
    producer = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 5}
    batch = build(given_events, now_ms=NOW_MS, compression=one, **producer)  # type: ignore[arg-type]

    remade = packed(batch, other)

    before, after = check_header(batch), check_header(remade)
    assert CODECS[after.codec] == other
    assert (after.producer_id, after.producer_epoch, after.base_sequence) == (7, 1, 5)
    assert after.count == before.count
    assert contents(events(remade)) == contents(events(batch))
