"""Transaction markers: control batches as Kafka writes them."""

import pytest

from mainstem.core.batch import check_header
from mainstem.core.errors import CorruptBatch
from mainstem.core.event import Event
from mainstem.core.record_parser import walk
from mainstem.core.records import build, events
from mainstem.core.transaction_markers import build_marker, is_commit


@pytest.mark.parametrize("committed", [True, False])
def test_a_marker_tells_who_ended_what(committed: bool) -> None:
    batch = build_marker(7, 3, committed=committed, now_ms=1_000, coordinator_epoch=5)

    header = check_header(batch, stored=True)
    ((_, timestamp_ms, key, value, *_),) = walk(header, bytes(batch), 61)

    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, -1)
    assert timestamp_ms == 1_000
    assert key == bytes([0, 0, 0, committed])
    assert value == bytes([0, 0, 0, 0, 0, 5])
    assert is_commit(batch) is committed
    assert list(events(batch)) == []


def test_a_batch_of_events_is_no_marker() -> None:
    with pytest.raises(CorruptBatch):
        is_commit(build([Event(b"x")], now_ms=0))


def test_producers_cannot_write_markers() -> None:
    with pytest.raises(CorruptBatch, match="only the transaction coordinator"):
        check_header(build_marker(7, 0, committed=True, now_ms=0))
