"""A database table that changes at random, and its changes as Debezium writes them."""

import base64
import json
import random
from datetime import UTC, datetime
from decimal import Decimal

import msgspec

import mainstem

SCHEMA = "id bigint, name string, amount decimal(12,2), at timestamp, day date, note string"
BEGIN_US = 1_794_729_600_000_000
Row = dict[str, object]


class Version(msgspec.Struct, frozen=True):
    """A row from one change of it to the next."""

    row: tuple[tuple[str, object], ...]
    valid_from_us: int
    valid_to_us: int | None


class ChangingTable:
    """A table, all versions of its rows, and the events of its changes."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self.rows: dict[int, Row] = {}
        self.versions: dict[int, list[Version]] = {}
        self.events: list[mainstem.Event] = []
        self._lsn = 1000

    def change(self, count: int) -> None:
        """Make changes at random: inserts, updates, deletes, and of keys."""
        for _ in range(count):
            known = sorted(self.rows)
            what = self._chance.choice(("insert", "update", "update", "delete", "key"))
            if what == "insert" or not known:
                self._insert()
            elif what == "update":
                self._update(self._chance.choice(known))
            elif what == "delete":
                self._delete(self._chance.choice(known))
            else:
                self._change_key(self._chance.choice(known))

    def truncate(self) -> int:
        """Delete all rows; returns the position of that."""
        self._lsn += 1
        self.rows.clear()
        return self._lsn

    def read_again(self, unchanged: int) -> None:
        """Read a row as a snapshot does."""
        self._publish("r", None, self.rows[unchanged], unchanged)

    def change_name(self, number: int) -> None:
        """Update a row."""
        self._update(number)

    def _insert(self) -> None:
        number = self._chance.randrange(30)
        if number in self.rows:
            self._update(number)
            return
        self.rows[number] = self._row(number)
        self._begin(number, self._publish("c", None, self.rows[number], number))

    def _update(self, number: int) -> None:
        before, after = self.rows[number], self._row(number)
        kept = self._chance.random() < 0.3
        if kept:
            after["note"] = before["note"]
        self.rows[number] = after
        self._begin(number, self._publish("u", before, after, number, unavailable=kept))

    def _delete(self, number: int) -> None:
        gone = self.rows.pop(number)
        self._end(number, self._publish("d", gone, None, number))
        self.events.append(mainstem.Event(None, _key(number)))

    def _change_key(self, number: int) -> None:
        # Debezium says that the row was deleted, and another one created.
        row = self.rows[number]
        other = self._chance.randrange(30, 60)
        if other in self.rows:
            return
        self._delete(number)
        self.rows[other] = row | {"id": other}
        self._begin(other, self._publish("c", None, self.rows[other], other))

    def _row(self, number: int) -> Row:
        chance = self._chance
        return {
            "id": number,
            "name": chance.choice((None, "ann", "bob", 'a "name"')),
            "amount": Decimal(chance.randrange(-999, 10**6)).scaleb(-2),
            "at": datetime.fromtimestamp(chance.randrange(2_000_000_000), UTC),
            "day": datetime.fromtimestamp(chance.randrange(2_000_000_000), UTC).date(),
            "note": "long " * chance.randrange(1, 4),
        }

    def _begin(self, number: int, at_us: int) -> None:
        self._end(number, at_us)
        row = tuple(self.rows[number].items())
        self.versions.setdefault(number, []).append(Version(row, at_us, None))

    def _end(self, number: int, at_us: int) -> None:
        versions = self.versions.setdefault(number, [])
        if versions and versions[-1].valid_to_us is None:
            versions[-1] = msgspec.structs.replace(versions[-1], valid_to_us=at_us)

    def _publish(
        self,
        op: str,
        before: Row | None,
        after: Row | None,
        number: int,
        *,
        unavailable: bool = False,
    ) -> int:
        self._lsn += self._chance.randrange(1, 9)
        at_us = BEGIN_US + self._lsn * 1_000_000
        left = _written(after)
        if left is not None and unavailable:
            left["note"] = "__debezium_unavailable_value"
        document = {
            "before": {"id": number} if before else None,
            "after": left,
            "op": op,
            "ts_ms": at_us // 1000 + 5,
            "source": {"connector": "postgresql", "lsn": self._lsn, "ts_us": at_us},
            "transaction": None,
        }
        self.events.append(mainstem.Event(json.dumps(document).encode(), _key(number)))
        return at_us


def _key(number: int) -> bytes:
    return json.dumps({"id": number}).encode()


def _written(row: Row | None) -> dict[str, object] | None:
    if row is None:
        return None
    amount, at, day = row["amount"], row["at"], row["day"]
    assert isinstance(amount, Decimal)
    assert isinstance(at, datetime)
    digits = int(amount.scaleb(2))
    return row | {
        "amount": base64.b64encode(digits.to_bytes(5, "big", signed=True)).decode(),
        "at": int(at.timestamp()) * 1_000_000,
        "day": (day - datetime(1970, 1, 1, tzinfo=UTC).date()).days,  # type: ignore[operator]
    }
