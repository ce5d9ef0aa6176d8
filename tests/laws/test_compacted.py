"""What compaction keeps, on disk as in memory."""

import pytest
from tests.laws.log_implementations import FIRST, OpenQuiet, all_events, open_partitions

from mainstem.core.batch import batches, place, read_header, seal
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.core.topic_settings import TopicSettings
from mainstem.log.segments import offset_map

TOMBSTONE_MS = 1_000
SETTINGS = TopicSettings(compact=True, segment_bytes=1_024, tombstone_ms=TOMBSTONE_MS)


class Compacted:
    """A compacted partition of a log, and a clock."""

    def __init__(self, open_quiet: OpenQuiet) -> None:
        self.now_ms = 1_000_000
        self.log, self._commit, self._keep_up = open_quiet(lambda: self.now_ms)
        open_partitions(self.log, FIRST, settings=SETTINGS)

    def write(self, key: bytes, value: bytes | None, *, transactional: bool = False) -> None:
        """Write a batch of one event, alone or in a transaction."""
        self.append(
            build(
                [Event(value, key)],
                now_ms=self.now_ms,
                producer_id=5 if transactional else -1,
                producer_epoch=0 if transactional else -1,
                base_sequence=0 if transactional else -1,
                transactional=transactional,
            )
        )

    def append(self, batch: bytearray) -> None:
        """Append a batch, and show it to readers."""
        self.log.append([(FIRST, batch)])
        self._commit()

    def compact(self) -> None:
        """Write enough to get all before it compacted."""
        for _ in range(6):
            self.write(b"filler", b"filler" * 500)
        self._keep_up()

    def left(self) -> list[tuple[int, bytes]]:
        """Return offset and value of all that is left, without what only fills."""
        return [each for each in all_events(self.log, FIRST) if each[1][:6] != b"filler"]


@pytest.fixture
def compacted(open_quiet: OpenQuiet) -> Compacted:
    return Compacted(open_quiet)


def test_an_event_of_a_transaction_outdates_nothing_as_it_may_be_aborted(
    compacted: Compacted,
) -> None:
    compacted.write(b"k", b"outdated")
    compacted.write(b"k", b"committed")
    compacted.write(b"k", b"aborted", transactional=True)

    compacted.compact()

    assert compacted.left() == [(1, b"committed"), (2, b"aborted")]


def test_events_of_transactions_are_all_kept(compacted: Compacted) -> None:
    compacted.write(b"k", b"committed", transactional=True)
    compacted.write(b"k", b"aborted", transactional=True)
    compacted.write(b"k", b"latest")

    compacted.compact()

    assert compacted.left() == [(0, b"committed"), (1, b"aborted"), (2, b"latest")]


def test_a_deletion_is_kept_while_an_event_of_a_transaction_is_that_it_deletes(
    compacted: Compacted,
) -> None:
    compacted.write(b"k", b"committed", transactional=True)
    compacted.write(b"k", None)
    compacted.now_ms += 2 * TOMBSTONE_MS

    compacted.compact()
    compacted.compact()

    assert compacted.left() == [(0, b"committed"), (1, b"")]


def test_a_deletion_before_all_that_transactions_wrote_of_its_key_is_forgotten(
    compacted: Compacted,
) -> None:
    compacted.write(b"k", b"outdated")
    compacted.write(b"k", None)
    compacted.write(b"k", b"committed", transactional=True)
    compacted.now_ms += 2 * TOMBSTONE_MS

    compacted.compact()

    assert compacted.left() == [(2, b"committed")]


def test_deletions_are_all_kept_if_transactions_wrote_more_keys_than_are_remembered(
    compacted: Compacted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_map, "MAX_TRANSACTED", 1)
    compacted.write(b"k", b"committed", transactional=True)
    compacted.write(b"l", b"committed", transactional=True)
    compacted.write(b"l", None)
    compacted.now_ms += 2 * TOMBSTONE_MS

    compacted.compact()

    assert compacted.left() == [(0, b"committed"), (1, b"committed"), (2, b"")]


@pytest.mark.parametrize("transactional", [False, True])
def test_a_batch_that_cannot_be_read_is_kept_as_it_is_and_outdates_nothing(
    compacted: Compacted, transactional: bool
) -> None:
    compacted.write(b"k", b"latest")
    unreadable = build(
        [Event(b"unreadable", b"k"), Event(b"cut off", b"l")],
        now_ms=compacted.now_ms,
        producer_id=5,
        producer_epoch=0,
        base_sequence=0,
        transactional=transactional,
    )
    del unreadable[-1]
    place(unreadable, 0, 0)
    seal(unreadable)
    compacted.append(unreadable)
    compacted.write(b"m", b"outdated")
    compacted.write(b"m", b"latest")

    compacted.compact()

    left = list(batches(compacted.log.read(FIRST, 0, 1 << 20).tobytes()))
    assert [read_header(batch).base_offset for batch in left[:3]] == [0, 1, 4]
    assert left[1][8:12] == unreadable[8:12]
    assert left[1][16:] == unreadable[16:]
