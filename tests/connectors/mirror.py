"""A table as its events tell it, and a judge of whether each change is there exactly once.

The tables of these tests have a column ``v``, which every change of a row raises by one: so a
change that is missing, there twice, or in the wrong order is seen in the next event of that row.
"""

import json
from collections.abc import Iterable
from typing import Any

from mainstem.core.event import Event

Row = dict[str, Any]


class Mirror:
    """The rows of one table, by key, from the events of its topic."""

    def __init__(self) -> None:
        self.rows: dict[bytes, Row] = {}
        self.flaws: list[str] = []
        self.events = 0
        self.truncates = 0
        self._read: set[bytes] = set()
        self._gone: dict[bytes, Row] = {}
        self._lsns: set[tuple[int, str, bytes | None]] = set()
        self._last_lsn = 0

    def apply_all(self, events: Iterable[Event]) -> "Mirror":
        """Apply events in order."""
        for event in events:
            self.apply(event)
        return self

    def apply(self, event: Event) -> None:
        """Apply one event."""
        self.events += 1
        key = event.key
        if event.value is None:
            if key in self.rows:
                self._flaw(event, "a tombstone of a row that was not deleted")
            return
        value = json.loads(event.value)
        op, before, after = value["op"], value["before"], value["after"]
        self._check_place(event, op, value["source"])
        if op == "t":
            self.rows.clear()
            self.truncates += 1
            return
        assert key is not None
        known = self.rows.get(key)
        if op == "r":
            self._read_row(event, key, known, after)
        elif op == "d":
            if known is None and key in self._read:
                self._flaw(event, "a deletion of a row that is not there")
            self.rows.pop(key, None)
            self._read.add(key)
        else:
            self._changed(event, op, key, known, before, after)

    def _changed(
        self, event: Event, op: str, key: bytes, known: Row | None, _before: Row | None, after: Row
    ) -> None:
        if op == "c" and known is not None:
            self._flaw(event, f"a row is created that is there: {known}")
        if op == "u":
            if known is None and key in self._read:
                self._flaw(event, "a row is changed that is not there")
            if known is not None and after["v"] != known["v"] + 1:
                self._flaw(event, f"v goes from {known['v']} to {after['v']}")
        row = dict(after)
        for name, each in after.items():
            if each == "__debezium_unavailable_value":
                row[name] = None if known is None else known.get(name)
        self.rows[key] = row
        self._read.add(key)

    def _read_row(self, event: Event, key: bytes, known: Row | None, after: Row) -> None:
        # Rows of before a change of the schema have other columns.
        if known is not None and known["v"] != after["v"]:
            self._flaw(event, f"a read gives {after}, and changes gave {known}")
        if known is None and key in self._read:
            self._flaw(event, "a row is read that was deleted")
        self.rows[key] = after
        self._read.add(key)

    def _check_place(self, event: Event, op: str, source: Row) -> None:
        lsn = source.get("lsn")
        if lsn is None or op == "r":
            return
        place = (lsn, op, event.key)
        if place in self._lsns:
            self._flaw(event, f"is there twice: {place}")
        self._lsns.add(place)

    def _flaw(self, event: Event, what: str) -> None:
        text = (event.value or b"").decode()
        self.flaws.append(f"{event.topic}@{event.offset} {event.key!r}: {what}; {text:.300}")
