"""Decodes the messages of PostgreSQL's logical replication (``pgoutput``, protocol version 1).

Pure: bytes in, values out. Layouts: PostgreSQL, "Logical Replication Message Formats".
"""

import struct
from enum import Enum
from typing import Final, Literal, NamedTuple

_U16 = struct.Struct(">H").unpack_from
_U32 = struct.Struct(">I").unpack_from
_BEGIN = struct.Struct(">QqI")
_COMMIT = struct.Struct(">BQQq")
_COLUMN = struct.Struct(">Ii")
EPOCH_US: Final = 946_684_800_000_000
"""2000-01-01, where PostgreSQL's times begin, in microseconds since 1970."""


class BadMessage(ValueError):
    """Raised if bytes are not a message of pgoutput."""


class Unchanged(Enum):
    """A marker instead of a large (TOASTed) value, which an update has not changed and not sent."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED
Value = str | None | Unchanged
Values = list[Value]
Identity = Literal["d", "n", "f", "i"]
"""What ``before`` of updates and deletes holds: key (d), nothing (n), all (f), an index (i)."""


class RelationColumn(NamedTuple):
    """A column, as a Relation message describes it."""

    name: str
    type_oid: int
    type_modifier: int
    is_key: bool
    """Whether it is part of the replica identity."""


class Relation(NamedTuple):
    """A Relation message: describes a table, before its first change and after each new schema."""

    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]


class BeginMessage(NamedTuple):
    """A transaction begins; all its messages follow."""

    commit_lsn: int
    committed_us: int
    xid: int


class CommitMessage(NamedTuple):
    """The transaction is complete."""

    commit_lsn: int
    end_lsn: int
    committed_us: int


class Insert(NamedTuple):
    """A new row."""

    relation: int
    new: Values


class Update(NamedTuple):
    """A changed row; ``old`` is set if the replica identity changed, or is FULL."""

    relation: int
    old: Values | None
    old_is_key: bool
    new: Values


class Delete(NamedTuple):
    """A deleted row; ``old_is_key`` says that it has only the columns of the replica identity."""

    relation: int
    old: Values
    old_is_key: bool


class Truncate(NamedTuple):
    """One or more truncated tables."""

    relations: tuple[int, ...]


class Other(NamedTuple):
    """A message that changes nothing: a type, an origin, or a program's own message."""

    kind: str


Message = Relation | BeginMessage | CommitMessage | Insert | Update | Delete | Truncate | Other


def decode(data: bytes) -> Message:
    """Decode one message; raises BadMessage."""
    if not data:
        raise BadMessage("an empty message")
    decoder = _DECODERS.get(data[0])
    if decoder is None:
        raise BadMessage(f"unknown message {data[:1]!r}")
    try:
        message, end = decoder(data)
    except (struct.error, IndexError, UnicodeDecodeError, ValueError) as error:
        raise BadMessage(f"message {data[:1]!r} of {len(data)} bytes: {error}") from None
    if end != len(data):
        raise BadMessage(f"message {data[:1]!r}: {len(data) - end} bytes too many")
    return message


def _begin(data: bytes) -> tuple[Message, int]:
    lsn, time_us, xid = _BEGIN.unpack_from(data, 1)
    return BeginMessage(lsn, time_us + EPOCH_US, xid), 1 + _BEGIN.size


def _commit(data: bytes) -> tuple[Message, int]:
    _, lsn, end_lsn, time_us = _COMMIT.unpack_from(data, 1)
    return CommitMessage(lsn, end_lsn, time_us + EPOCH_US), 1 + _COMMIT.size


def _relation(data: bytes) -> tuple[Message, int]:
    (oid,) = _U32(data, 1)
    schema, at = _text(data, 5)
    name, at = _text(data, at)
    identity = chr(data[at])
    (count,) = _U16(data, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        flags = data[at]
        column, at = _text(data, at + 1)
        type_oid, modifier = _COLUMN.unpack_from(data, at)
        at += _COLUMN.size
        columns.append(RelationColumn(column, type_oid, modifier, bool(flags & 1)))
    # System tables have an empty schema.
    return Relation(oid, schema or "pg_catalog", name, identity, tuple(columns)), at


def _insert(data: bytes) -> tuple[Message, int]:
    _expect(data, 5, b"N")
    new, at = _values(data, 6)
    return Insert(_U32(data, 1)[0], new), at


def _update(data: bytes) -> tuple[Message, int]:
    (oid,) = _U32(data, 1)
    kind, at, old = data[5], 5, None
    if kind in b"KO":
        old, at = _values(data, 6)
    _expect(data, at, b"N")
    new, at = _values(data, at + 1)
    return Update(oid, old, kind == 75, new), at


def _delete(data: bytes) -> tuple[Message, int]:
    _expect(data, 5, b"KO")
    old, at = _values(data, 6)
    return Delete(_U32(data, 1)[0], old, data[5] == 75), at


def _truncate(data: bytes) -> tuple[Message, int]:
    (count,) = _U32(data, 1)
    end = 6 + 4 * count
    if end > len(data):
        raise BadMessage(f"{count} tables")
    return Truncate(struct.unpack_from(f">{count}I", data, 6)), end


def _type(data: bytes) -> tuple[Message, int]:
    _U32(data, 1)
    _, at = _text(data, 5)
    _, at = _text(data, at)
    return Other("type"), at


def _origin(data: bytes) -> tuple[Message, int]:
    _, at = _text(data, 9)
    return Other("origin"), at


def _application(data: bytes) -> tuple[Message, int]:
    _, at = _text(data, 10)
    return Other("message"), at + 4 + _U32(data, at)[0]


def _values(data: bytes, at: int) -> tuple[Values, int]:
    """Decode a row's values and return them with the place after them.

    Most of the time of decoding is spent in this loop.
    """
    (count,) = _U16(data, at)
    at += 2
    found: Values = []
    add, from_bytes = found.append, int.from_bytes
    for _ in range(count):
        kind = data[at]
        at += 1
        if kind == 116:  # t: text
            start = at + 4
            at = start + from_bytes(data[at:start], "big")
            add(data[start:at].decode())
        elif kind == 110:  # n: NULL
            add(None)
        elif kind == 117:  # u: not sent
            add(UNCHANGED)
        else:
            raise BadMessage(f"value of kind {kind}")
    if at > len(data):
        raise BadMessage(f"a value ends at byte {at}")
    return found, at


def _text(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


def _expect(data: bytes, at: int, kinds: bytes) -> None:
    if data[at] not in kinds:
        raise BadMessage(f"byte {at} is {data[at : at + 1]!r}")


_DECODERS = {
    ord("B"): _begin,
    ord("C"): _commit,
    ord("R"): _relation,
    ord("I"): _insert,
    ord("U"): _update,
    ord("D"): _delete,
    ord("T"): _truncate,
    ord("Y"): _type,
    ord("O"): _origin,
    ord("M"): _application,
}


def xid_of(data: bytes) -> int:
    """Return the transaction id in a Begin message."""
    if len(data) != 1 + _BEGIN.size:
        raise BadMessage(f"a Begin message of {len(data)} bytes")
    return int(_BEGIN.unpack_from(data, 1)[2])
