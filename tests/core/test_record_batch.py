"""The header of a record batch: reading, checking, placing and stamping it."""

import pytest
from tests.core.golden_batches import BATCHES, TRANSACTIONAL
from tests.core.handmade_batches import NOW_MS, sealed

from mainstem.core.batch import (
    HEADER_SIZE,
    batches,
    check_header,
    checksum_matches,
    place,
    read_header,
    set_last_offset,
    stamp,
)
from mainstem.core.checksum import crc32c
from mainstem.core.errors import CorruptBatch, EventTooLarge
from mainstem.core.event import Event
from mainstem.core.records import build, events

ONE = bytes.fromhex("0e000000026b0000")  # key k, empty value


def test_the_checksum_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"6789", crc32c(b"12345")) == 0xE3069283


def test_every_field_of_a_header_is_read() -> None:
    header = read_header(bytes.fromhex(TRANSACTIONAL))

    assert header.base_offset == 0
    assert header.size == len(TRANSACTIONAL) // 2
    assert header.epoch == -1
    assert header.crc == 0x921AE734
    assert header.attributes == 0x10
    assert header.last_offset_delta == header.last_offset == 3
    assert header.base_timestamp == 1_700_000_000_000
    assert header.max_timestamp == 1_700_000_000_250
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4711, 3, 42)
    assert header.count == 4
    assert header.is_transactional
    assert not header.is_control
    assert not header.log_append_time


@pytest.mark.parametrize("codec", range(5))
def test_the_codec_of_a_header_is_the_one_it_was_packed_with(codec: int) -> None:
    batch = bytes.fromhex(list(BATCHES.values())[codec])

    assert read_header(batch).codec == codec


def test_a_header_is_read_at_any_position_of_any_buffer() -> None:
    batch = bytes.fromhex(TRANSACTIONAL)
    shifted = b"junk" + batch

    assert read_header(shifted, 4) == read_header(memoryview(shifted), 4) == read_header(batch)
    assert checksum_matches(shifted, 4, len(batch))
    assert not checksum_matches(shifted, 4, len(batch) + 1)
    assert not checksum_matches(shifted, 3, len(batch))


def test_fewer_bytes_than_a_header_are_refused() -> None:
    batch = build([Event(b"v")], now_ms=NOW_MS)

    for size in range(HEADER_SIZE):
        with pytest.raises(CorruptBatch, match=f"{size} are there"):
            read_header(batch[:size])


def test_placing_a_batch_changes_nothing_under_the_checksum() -> None:
    batch = build([Event(b"v"), Event(b"w")], now_ms=NOW_MS)
    before = bytes(batch)

    place(batch, 2**40, 7)

    header = check_header(batch)
    assert (header.base_offset, header.epoch, header.last_offset) == (2**40, 7, 2**40 + 1)
    assert batch[16:] == before[16:]
    assert [event.offset for event in events(batch)] == [2**40, 2**40 + 1]


def test_a_stamped_batch_has_one_time_for_all_its_events() -> None:
    batch = build([Event(b"v", timestamp_ms=5), Event(b"w", timestamp_ms=9)], now_ms=NOW_MS)

    stamp(batch, 777)

    header = check_header(batch, stored=True)
    assert header.log_append_time
    assert header.max_timestamp == 777
    assert [event.timestamp_ms for event in events(batch)] == [777, 777]


def test_a_batch_can_stand_for_fewer_offsets() -> None:
    batch = sealed(ONE, count=1, last_offset_delta=9, base_offset=100)

    set_last_offset(batch, 104)

    header = check_header(batch, stored=True)
    assert (header.base_offset, header.last_offset, header.count) == (100, 104, 1)


def test_a_run_of_batches_is_cut_into_its_batches() -> None:
    run = [bytes(build([Event(b"v" * size)], now_ms=NOW_MS)) for size in (0, 1, 1000)]

    assert [bytes(batch) for batch in batches(b"".join(run))] == run
    assert list(batches(b"")) == []


@pytest.mark.parametrize("missing", [1, 5, 68])
def test_a_run_that_ends_in_a_piece_of_a_batch_is_refused_there(missing: int) -> None:
    first, second = build([Event(b"1")], now_ms=NOW_MS), build([Event(b"2")], now_ms=NOW_MS)

    cutting = batches((first + second)[:-missing])

    assert next(cutting) == first
    with pytest.raises(CorruptBatch):
        next(cutting)


@pytest.mark.parametrize("length", [-(2**31), -13, -12, -1, 0, 48])
def test_a_length_that_leads_nowhere_ends_the_cutting(length: int) -> None:
    batch = sealed(ONE, length=length)

    with pytest.raises(CorruptBatch, match=f"batch length {length}; the header alone is 49"):
        read_header(batch)
    with pytest.raises(CorruptBatch):
        list(batches(batch))


@pytest.mark.parametrize("codec", BATCHES)
def test_what_a_real_producer_sends_passes(codec: str) -> None:
    check_header(bytes.fromhex(BATCHES[codec]))
    check_header(bytes.fromhex(TRANSACTIONAL))


REFUSED_FROM_A_PRODUCER = {
    "magic 0": (sealed(ONE, magic=0), "magic 0"),
    "magic 1": (sealed(ONE, magic=1), "magic 1"),
    "magic 3": (sealed(ONE, magic=3), "magic 3"),
    "length of nothing": (sealed(ONE, length=0), "batch length 0"),
    "negative length": (sealed(ONE, length=-1), "batch length -1"),
    "length below the header": (sealed(ONE, length=48), "batch length 48"),
    "length one short": (sealed(ONE, length=56), "68 bytes .* in 69 bytes"),
    "length one long": (sealed(ONE, length=58), "70 bytes .* in 69 bytes"),
    "length of 2 GiB": (sealed(ONE, length=2**31 - 1), "in 69 bytes"),
    "no records": (sealed(b"", count=0), "count 0"),
    "negative count": (sealed(ONE, count=-1), "count -1"),
    "last offset delta too small": (
        sealed(ONE, count=2, last_offset_delta=0),
        "count 2, last offset delta 0",
    ),
    "last offset delta too large": (
        sealed(ONE, count=1, last_offset_delta=1),
        "count 1, last offset delta 1",
    ),
    "negative last offset delta": (
        sealed(ONE, last_offset_delta=-1),
        "count 1, last offset delta -1",
    ),
    "codec 5": (sealed(ONE, attributes=5), "unknown compression codec 5"),
    "codec 7": (sealed(ONE, attributes=7), "unknown compression codec 7"),
    "stamped by a producer": (sealed(ONE, attributes=0x08), "stamped by the log"),
    "control batch": (
        sealed(ONE, attributes=0x30, producer_id=1, producer_epoch=0),
        "control batch from a producer",
    ),
    "delete horizon": (sealed(ONE, attributes=0x40), "attributes 0x0040"),
    "unknown attribute": (sealed(ONE, attributes=0x80), "attributes 0x0080"),
    "sign of attributes": (sealed(ONE, attributes=-(2**15)), "attributes 0x8000"),
    "transaction without producer": (sealed(ONE, attributes=0x10), "without a producer id"),
    "producer -2": (sealed(ONE, producer_id=-2), "producer id -2"),
    "producer without epoch": (
        sealed(ONE, producer_id=1, base_sequence=0),
        "producer id 1, producer epoch -1",
    ),
    "producer without sequence": (
        sealed(ONE, producer_id=1, producer_epoch=0),
        "producer id 1, base sequence -1",
    ),
    "timestamp -2": (sealed(ONE, base_timestamp=-2), "base timestamp -2"),
    "smallest timestamp": (sealed(ONE, base_timestamp=-(2**63)), "base timestamp -9223"),
    "maximum below first": (
        sealed(ONE, base_timestamp=10, max_timestamp=9),
        "base timestamp 10, max timestamp 9",
    ),
    "two batches": (sealed(ONE) + sealed(ONE), "exactly one batch"),
    "a byte after the batch": (sealed(ONE) + b"\x00", "exactly one batch"),
    "a byte missing": (sealed(ONE)[:-1], "exactly one batch"),
    "nothing": (bytearray(), "0 are there"),
}


@pytest.mark.parametrize("case", REFUSED_FROM_A_PRODUCER)
def test_a_bad_batch_is_refused_by_what_is_wrong_with_it(case: str) -> None:
    batch, text = REFUSED_FROM_A_PRODUCER[case]

    with pytest.raises(CorruptBatch, match=text):
        check_header(batch)


ALLOWED_FROM_A_PRODUCER = {
    "no timestamps": sealed(ONE, base_timestamp=-1, max_timestamp=-1),
    "far future": sealed(ONE, base_timestamp=2**63 - 1, max_timestamp=2**63 - 1),
    "transaction": sealed(ONE, attributes=0x10, producer_id=0, producer_epoch=0, base_sequence=0),
    "largest sequence": sealed(ONE, producer_id=0, producer_epoch=0, base_sequence=2**31 - 1),
    "any base offset": sealed(ONE, base_offset=-5),
}


@pytest.mark.parametrize("case", ALLOWED_FROM_A_PRODUCER)
def test_an_unusual_batch_is_allowed(case: str) -> None:
    check_header(ALLOWED_FROM_A_PRODUCER[case])


@pytest.mark.parametrize(
    "batch",
    [
        sealed(ONE, count=1, last_offset_delta=9),
        sealed(b"", count=0, last_offset_delta=9),
        sealed(ONE, attributes=0x08),
        sealed(ONE, attributes=0x40),
        sealed(ONE, attributes=0x30, producer_id=1, producer_epoch=0),
        sealed(ONE, base_timestamp=10, max_timestamp=9),
    ],
    ids=["thinned", "emptied", "stamped", "delete horizon", "control", "oldest left"],
)
def test_what_only_the_log_may_write_is_allowed_once_stored(batch: bytearray) -> None:
    with pytest.raises(CorruptBatch):
        check_header(batch)

    check_header(batch, stored=True)


def test_a_stored_batch_with_unknown_attributes_is_refused() -> None:
    with pytest.raises(CorruptBatch, match="attributes 0x0180"):
        check_header(sealed(ONE, attributes=0x180), stored=True)


@pytest.mark.parametrize("count", [-1, 3])
def test_a_stored_batch_has_no_more_records_than_offsets(count: int) -> None:
    with pytest.raises(CorruptBatch, match=f"count {count}, last offset delta 1"):
        check_header(sealed(ONE, count=count, last_offset_delta=1), stored=True)


def test_a_batch_at_the_limit_is_allowed_and_one_byte_over_is_not() -> None:
    batch = sealed(ONE)

    check_header(batch, max_bytes=len(batch))
    with pytest.raises(EventTooLarge, match=r"69 bytes for topic 'orders'.* 68"):
        check_header(batch, max_bytes=len(batch) - 1, topic="orders")


@pytest.mark.parametrize("codec", BATCHES)
def test_every_flipped_bit_is_noticed_but_those_the_log_writes_itself(codec: str) -> None:
    batch = bytearray.fromhex(BATCHES[codec])
    base_offset_and_epoch = {*range(8), *range(12, 16)}

    for bit in range(len(batch) * 8):
        batch[bit // 8] ^= 1 << bit % 8
        if bit // 8 not in base_offset_and_epoch:
            with pytest.raises(CorruptBatch):
                check_header(batch)
            with pytest.raises(CorruptBatch):
                events(batch)
        batch[bit // 8] ^= 1 << bit % 8
    check_header(batch)


def test_a_batch_cut_off_anywhere_is_refused() -> None:
    batch = bytes.fromhex(TRANSACTIONAL)

    for size in range(len(batch)):
        with pytest.raises(CorruptBatch):
            check_header(batch[:size])
