"""Decodes the events of a binlog: headers, transactions, tables and rows; no I/O.

Layouts: "Replication Protocol" of MariaDB's documentation. The table map events must have the names
of the columns (``binlog_row_metadata=FULL``), so that rows are decoded with the columns that the
table had when they were written, whatever it looks like now.
"""

import struct
import zlib
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import NamedTuple

from mainstem.connectors.errors import SourceFailed, SourceRefused
from mainstem.connectors.mariadb.reader import Reader

HEADER_BYTES = 19
_HEADER = struct.Struct("<IBIIIH")
_ROWS_AT, _EXTENDED_ROWS_AT = 8, 10
"""How long the fixed part of row events is; the newer ones have more data after it."""


class Kind(IntEnum):
    """The types of binlog events that connectors use."""

    QUERY = 2
    ROTATE = 4
    FORMAT = 15
    XID = 16
    TABLE_MAP = 19
    WRITE_1, UPDATE_1, DELETE_1 = 23, 24, 25
    HEARTBEAT = 27
    WRITE_2, UPDATE_2, DELETE_2 = 30, 31, 32
    GTID_MYSQL, ANONYMOUS_GTID_MYSQL = 33, 34
    XA_PREPARE = 38
    PARTIAL_UPDATE = 39
    TRANSACTION_PAYLOAD = 40
    GTID = 162
    QUERY_COMPRESSED = 165
    WRITE_1_COMPRESSED, UPDATE_1_COMPRESSED, DELETE_1_COMPRESSED = 166, 167, 168
    WRITE_2_COMPRESSED, UPDATE_2_COMPRESSED, DELETE_2_COMPRESSED = 169, 170, 171


WRITES = {Kind.WRITE_1, Kind.WRITE_2, Kind.WRITE_1_COMPRESSED, Kind.WRITE_2_COMPRESSED}
UPDATES = {Kind.UPDATE_1, Kind.UPDATE_2, Kind.UPDATE_1_COMPRESSED, Kind.UPDATE_2_COMPRESSED}
DELETES = {Kind.DELETE_1, Kind.DELETE_2, Kind.DELETE_1_COMPRESSED, Kind.DELETE_2_COMPRESSED}
_EXTENDED = {
    *(Kind.WRITE_2, Kind.UPDATE_2, Kind.DELETE_2),
    *(Kind.WRITE_2_COMPRESSED, Kind.UPDATE_2_COMPRESSED, Kind.DELETE_2_COMPRESSED),
}
_STANDALONE = 1


class BinlogEvent(NamedTuple):
    """A binlog event: its header, and its body without checksum."""

    timestamp_s: int
    kind: int
    server_id: int
    end: int
    """Where the next event begins in the file."""
    body: bytes


class Gtid(NamedTuple):
    """The GTID of a transaction, whose changes are in the events after it."""

    domain: int
    server: int
    sequence: int
    is_standalone: bool
    """Whether it is one statement, such as ``ALTER TABLE``, without an end of its own."""

    @property
    def text(self) -> str:
        """The GTID as MariaDB writes it: domain, server and sequence."""
        return f"{self.domain}-{self.server}-{self.sequence}"


class Query(NamedTuple):
    """An SQL statement, and the database of the tables that it names without one."""

    database: str
    text: str


class RawColumn(NamedTuple):
    """A column as a table map event describes it."""

    name: str
    type: int
    meta: int
    is_unsigned: bool
    collation: int | None
    """The id of the collation of text; None for what has none."""
    labels: tuple[bytes, ...]
    """The values of an enum or set."""
    optional: bool
    shape: int = 0
    """What a geometry is, by the number in its WKB; 0: any."""


class TableMap(NamedTuple):
    """A table map event, which describes the table of the row events after it."""

    table_id: int
    database: str
    name: str
    columns: tuple[RawColumn, ...]
    key: tuple[str, ...]


class Rows(NamedTuple):
    """A row event whose rows are not decoded yet."""

    table_id: int
    is_present: Sequence[bool]
    """By column, whether the rows have it; of an update the rows before."""
    is_present_after: Sequence[bool]
    data: bytes


def parse_event(data: bytes, *, has_checksum: bool) -> BinlogEvent:
    """Parse an event; raises SourceFailed if its size or checksum is wrong."""
    if len(data) < HEADER_BYTES:
        raise SourceFailed(f"binlog: an event of {len(data)} bytes")
    timestamp_s, kind, server_id, size, end, _ = _HEADER.unpack_from(data)
    if size != len(data):
        raise SourceFailed(f"binlog: an event of {len(data)} bytes says that it has {size}")
    last = len(data)
    if has_checksum or kind == Kind.FORMAT:
        last -= 4
        # The format event says in its body whether the other events have checksums.
        if has_checksum and zlib.crc32(data[:last]) != int.from_bytes(data[last:], "little"):
            raise SourceFailed(f"binlog: the event that ends at {end} has a wrong checksum")
    return BinlogEvent(timestamp_s, kind, server_id, end, data[HEADER_BYTES:last])


def has_checksums(format_body: bytes) -> bool:
    """Return whether the events after this format description event have checksums."""
    return format_body[-1] == 1


def parse_rotate(body: bytes) -> tuple[str, int]:
    """Return the binlog file that comes next, and the place in it where its events begin."""
    return body[8:].decode(), int.from_bytes(body[:8], "little")


def parse_gtid(event: BinlogEvent) -> Gtid:
    """Parse the GTID event that begins a transaction of MariaDB or MySQL."""
    body = event.body
    if event.kind == Kind.GTID:
        sequence, domain, flags = struct.unpack_from("<QIB", body)
        return Gtid(domain, event.server_id, sequence, bool(flags & _STANDALONE))
    # In MySQL the statement BEGIN follows, so the transaction counts as standalone until then.
    sequence = int.from_bytes(body[17:25], "little")
    return Gtid(0, event.server_id, sequence, is_standalone=True)


def parse_query(event: BinlogEvent) -> Query:
    """Parse a query event."""
    body = event.body
    database_size, variables = body[8], int.from_bytes(body[11:13], "little")
    at = 13 + variables
    database = body[at : at + database_size].decode("utf-8", "replace")
    text = body[at + database_size + 1 :]
    if event.kind == Kind.QUERY_COMPRESSED:
        text = _uncompressed(text)
    return Query(database, text.decode("utf-8", "replace"))


def parse_rows(event: BinlogEvent) -> Rows:
    """Parse a row event, without decoding its rows."""
    body, kind = event.body, Kind(event.kind)
    table_id = int.from_bytes(body[:6], "little")
    at = _ROWS_AT
    if kind in _EXTENDED:
        at += int.from_bytes(body[_ROWS_AT:_EXTENDED_ROWS_AT], "little")
    reader = Reader(body, at)
    count = reader.packed()
    present = reader.bits(count)
    after = reader.bits(count) if kind in UPDATES else present
    data = reader.rest()
    if kind >= Kind.WRITE_1_COMPRESSED:
        data = _uncompressed(data)
    return Rows(table_id, present, after, data)


def table_id_of(body: bytes) -> int:
    """Return the id in a table map event by which row events refer to the table."""
    return int.from_bytes(body[:6], "little")


def _uncompressed(data: bytes) -> bytes:
    size = data[0] & 7
    return zlib.decompress(data[1 + size :])


def parse_table_map(body: bytes, *, is_mariadb: bool = True) -> TableMap:
    """Parse a table map event; the result has no columns if the event lacks their names.

    The flags for unsigned columns and the collations are listed differently: MariaDB counts years
    as numbers, and geometries as texts; MySQL does not.
    """
    reader = Reader(body, _ROWS_AT)
    database = reader.take(reader.byte()).decode("utf-8", "replace")
    reader.byte()
    name = reader.take(reader.byte()).decode("utf-8", "replace")
    reader.byte()
    count = reader.packed()
    types = reader.take(count)
    metas = Reader(reader.take(reader.packed()))
    pairs = [_type_and_meta(kind, metas) for kind in types]
    nullable = reader.bits(count)
    more = _Metadata(reader, pairs, is_mariadb=is_mariadb)
    if len(more.names) != count:
        return TableMap(table_id_of(body), database, name, (), ())
    columns = tuple(
        RawColumn(
            more.names[place],
            kind,
            meta,
            place in more.unsigned,
            more.collations.get(place),
            more.labels.get(place, ()),
            nullable[place],
            more.shapes.get(place, 0),
        )
        for place, (kind, meta) in enumerate(pairs)
    )
    key = tuple(more.names[place] for place in more.key)
    return TableMap(table_id_of(body), database, name, columns, key)


class Type(IntEnum):
    """The column types of a binlog."""

    TINY, SHORT, LONG, FLOAT, DOUBLE = 1, 2, 3, 4, 5
    TIMESTAMP, LONGLONG, INT24, DATE, TIME, DATETIME, YEAR = 7, 8, 9, 10, 11, 12, 13
    VARCHAR, BIT, TIMESTAMP2, DATETIME2, TIME2 = 15, 16, 17, 18, 19
    BLOB_COMPRESSED, VARCHAR_COMPRESSED = 140, 141
    VECTOR, JSON, NEWDECIMAL, ENUM, SET = 242, 245, 246, 247, 248
    BLOB, VAR_STRING, STRING, GEOMETRY = 252, 253, 254, 255


_META_1 = {
    *(Type.FLOAT, Type.DOUBLE, Type.BLOB, Type.JSON, Type.GEOMETRY, Type.BLOB_COMPRESSED),
    *(Type.TIMESTAMP2, Type.DATETIME2, Type.TIME2, Type.VECTOR),
}
_META_2 = {Type.VARCHAR, Type.VARCHAR_COMPRESSED, Type.BIT, Type.NEWDECIMAL}
_META_STRING = {Type.STRING, Type.VAR_STRING, Type.ENUM, Type.SET}
_NUMBERS = {
    *(Type.TINY, Type.SHORT, Type.INT24, Type.LONG, Type.LONGLONG, Type.NEWDECIMAL),
    *(Type.FLOAT, Type.DOUBLE),
}
_TEXTS = {
    *(Type.STRING, Type.VAR_STRING, Type.VARCHAR, Type.BLOB),
    *(Type.VARCHAR_COMPRESSED, Type.BLOB_COMPRESSED),
}


def _type_and_meta(kind: int, metas: Reader) -> tuple[int, int]:
    if kind in _META_1:
        return kind, metas.byte()
    if kind in _META_2:
        return kind, metas.number(2)
    if kind not in _META_STRING:
        return kind, 0
    real, size = metas.byte(), metas.byte()
    if kind != Type.STRING:
        return kind, size
    # The type byte of a long CHAR also has two bits of its size.
    if real & 0x30 != 0x30:
        return real | 0x30, size | (real & 0x30 ^ 0x30) << 4
    return real, size


class _Metadata:
    """The optional part of a table map event, which ``binlog_row_metadata=FULL`` adds."""

    def __init__(
        self, reader: Reader, pairs: Sequence[tuple[int, int]], *, is_mariadb: bool
    ) -> None:
        self._pairs = pairs
        self._numbers = _NUMBERS | ({Type.YEAR} if is_mariadb else set())
        texts = _TEXTS | ({Type.GEOMETRY} if is_mariadb else set())
        self.unsigned: set[int] = set()
        self.collations: dict[int, int] = {}
        self.labels: dict[int, tuple[bytes, ...]] = {}
        self.shapes: dict[int, int] = {}
        self.names: list[str] = []
        self.key: list[int] = []
        fields: dict[int, Callable[[Reader], None]] = {
            1: self._signs,
            2: lambda it: self._default_collations(it, texts),
            3: lambda it: self._collations(it, texts),
            4: self._names,
            5: lambda it: self._labels(it, Type.SET),
            6: lambda it: self._labels(it, Type.ENUM),
            7: self._shapes,
            8: self._key,
            9: self._key_with_prefixes,
            10: lambda it: self._default_collations(it, {Type.ENUM, Type.SET}),
            11: lambda it: self._collations(it, {Type.ENUM, Type.SET}),
        }
        while reader.has_more():
            field, size = reader.byte(), reader.packed()
            value = Reader(reader.take(size))
            if (parse := fields.get(field)) is not None:
                parse(value)

    def _places(self, kinds: set[Type]) -> list[int]:
        return [place for place, (kind, _) in enumerate(self._pairs) if kind in kinds]

    def _signs(self, reader: Reader) -> None:
        places, data = self._places(self._numbers), reader.rest()
        if (len(places) + 7) // 8 != len(data):
            raise SourceRefused("binlog: the signs of numbers do not fit the columns")
        for number, place in enumerate(places):
            if data[number // 8] & (0x80 >> number % 8):
                self.unsigned.add(place)

    def _default_collations(self, reader: Reader, kinds: set[Type]) -> None:
        default, places = reader.packed(), self._places(kinds)
        self.collations |= dict.fromkeys(places, default)
        while reader.has_more():
            number = reader.packed()
            self.collations[places[number]] = reader.packed()

    def _collations(self, reader: Reader, kinds: set[Type]) -> None:
        for place in self._places(kinds):
            self.collations[place] = reader.packed()

    def _names(self, reader: Reader) -> None:
        while reader.has_more():
            self.names.append(reader.take(reader.packed()).decode("utf-8", "replace"))

    def _labels(self, reader: Reader, kind: Type) -> None:
        for place in self._places({kind}):
            self.labels[place] = tuple(reader.take(reader.packed()) for _ in range(reader.packed()))

    def _shapes(self, reader: Reader) -> None:
        for place in self._places({Type.GEOMETRY}):
            self.shapes[place] = reader.packed()

    def _key(self, reader: Reader) -> None:
        while reader.has_more():
            self.key.append(reader.packed())

    def _key_with_prefixes(self, reader: Reader) -> None:
        while reader.has_more():
            self.key.append(reader.packed())
            reader.packed()
