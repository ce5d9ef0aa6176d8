"""Journals: records are read back after a restart, and unknown ones are refused."""

import pytest

from mainstem.broker.groups.cursors import Cursor, CursorChange, CursorKey
from mainstem.broker.journal import CURSORS, IDS, Journal
from mainstem.core.errors import DamagedLog, FormatTooNew
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.log.memory import MemoryLog
from mainstem.log.port import PartitionId


def journal_on(log: MemoryLog) -> Journal[CursorKey, Cursor]:
    return Journal(log, CURSORS, CursorKey, Cursor)


def written(log: MemoryLog) -> list[CursorChange]:
    changes: list[CursorChange] = []
    journal_on(log).replay(lambda key, value: changes.append(CursorChange(key, value)))
    return changes


def test_what_is_written_is_read_back_in_order() -> None:
    log = MemoryLog()
    changes = [
        CursorChange(CursorKey(f"group {number}", "a" * 32, number), Cursor(number, 5, "näh"))
        for number in range(2_500)
    ]
    changes.append(CursorChange(changes[0].key, None))

    journal_on(log).append(changes, now_ms=5)

    assert written(log) == changes


def test_many_changes_are_written_together_or_not_at_all() -> None:
    log = MemoryLog()
    changes = [CursorChange(CursorKey("g", "a" * 32, n), Cursor(n, 5)) for n in range(2_500)]

    journal_on(log).append(changes, now_ms=5)

    assert log.bounds(PartitionId(IDS[CURSORS], 0)).end == 2_500


def test_nothing_to_write_is_durable_at_once() -> None:
    assert journal_on(MemoryLog()).append([], now_ms=5).done


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b'["cursor","g","t",0]', b'{"kind":"cursor/2","offset":1,"committed_ms":2}'),
        (b'["delivery","g","t",0]', b'{"kind":"cursor/1","offset":1,"committed_ms":2}'),
        (b'["cursor","g","t",0]', b'{"kind":"cursor/1","place":1}'),
    ],
)
def test_a_record_of_a_newer_kind_is_refused_with_its_place(key: bytes, value: bytes) -> None:
    log = MemoryLog()
    journal_on(log)
    log.append([(PartitionId(IDS[CURSORS], 0), build([Event(value, key)], now_ms=5))])

    with pytest.raises(FormatTooNew, match=r"offset 0 of __mainstem_cursors.*newer"):
        written(log)


def test_a_record_that_is_no_record_is_named_as_damage() -> None:
    log = MemoryLog()
    journal_on(log)
    log.append([(PartitionId(IDS[CURSORS], 0), build([Event(b"{", b"[")], now_ms=5))])

    with pytest.raises(DamagedLog, match="offset 0 of __mainstem_cursors"):
        written(log)
