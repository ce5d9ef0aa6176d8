"""Columns of MariaDB tables, described in the same way from the catalog and from the binlog."""

import re
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from mainstem.connectors.errors import SourceRefused
from mainstem.connectors.mariadb.binlog import RawColumn, Type

_LABEL = re.compile(r"'((?:[^']|'')*)'")
_INTEGERS: Mapping[int, str] = {
    Type.TINY: "tinyint",
    Type.SHORT: "smallint",
    Type.INT24: "mediumint",
    Type.LONG: "int",
    Type.LONGLONG: "bigint",
}
INTEGERS = frozenset(_INTEGERS.values())
_PLAIN: Mapping[int, str] = {
    **_INTEGERS,
    Type.FLOAT: "float",
    Type.DOUBLE: "double",
    Type.YEAR: "year",
    Type.DATE: "date",
    Type.GEOMETRY: "geometry",
}
_FRACTIONS: Mapping[int, str] = {
    Type.TIME2: "time",
    Type.DATETIME2: "datetime",
    Type.TIMESTAMP2: "timestamp",
}
_OLD: Mapping[int, str] = {
    Type.TIME: "time",
    Type.DATETIME: "datetime",
    Type.TIMESTAMP: "timestamp",
}
_SIZES = ("", "tiny", "", "medium", "long")
"""How names of texts and blobs begin, by the bytes that their length takes."""
_SHAPES = {
    *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring"),
    *("multipolygon", "geometrycollection"),
}
_POINT = 1
"""How the binlog and WKB number a point."""
CODED = {"uuid": 16, "inet6": 16, "inet4": 4}
"""Types that a binlog does not tell from BINARY, with their sizes."""
_TEXTS = ("tinytext", "text", "mediumtext", "longtext", "char", "varchar")
_BYTES = ("tinyblob", "blob", "mediumblob", "longblob", "binary", "varbinary")
_ENCODINGS = {
    "utf8mb4": "utf-8",
    "utf8mb3": "utf-8",
    "utf8": "utf-8",
    "latin1": "cp1252",
    "ascii": "ascii",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "latin2": "iso8859-2",
    "latin5": "iso8859-9",
    "latin7": "iso8859-13",
    "greek": "iso8859-7",
    "hebrew": "iso8859-8",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1256": "cp1256",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "cp866": "cp866",
    "cp932": "cp932",
    "sjis": "shift_jis",
    "ujis": "euc_jp",
    "eucjpms": "euc_jp",
    "euckr": "euc_kr",
    "gbk": "gbk",
    "gb2312": "gb2312",
    "gb18030": "gb18030",
    "big5": "big5",
    "koi8r": "koi8-r",
    "koi8u": "koi8-u",
    "tis620": "tis-620",
    "macroman": "mac-roman",
    "macce": "mac-latin2",
}


class Charset(NamedTuple):
    """A character set of the server."""

    name: str
    max_bytes: int
    """The most bytes of a character."""


class Spec(msgspec.Struct, frozen=True):
    """A column; two are equal if the values of both are converted in the same way."""

    name: str
    kind: str
    """The type, without size and sign, such as ``varchar``."""
    optional: bool = True
    is_unsigned: bool = False
    size: int = 0
    """Bytes of texts and binaries, bits of BIT, digits of DECIMAL."""
    scale: int = 0
    """Digits after the point, of DECIMAL and of times."""
    encoding: str = ""
    """How Python calls the character set of a text."""
    max_bytes: int = 1
    labels: tuple[str, ...] = ()

    @property
    def type_text(self) -> str:
        """The type as MariaDB writes it."""
        if self.kind in ("enum", "set"):
            labels = ",".join("'" + each.replace("'", "''") + "'" for each in self.labels)
            return f"{self.kind}({labels})"
        if self.kind == "decimal":
            text = f"decimal({self.size},{self.scale})"
        elif self.kind in ("char", "varchar", "binary", "varbinary"):
            text = f"{self.kind}({self.size // self.max_bytes})"
        elif self.kind == "bit":
            text = f"bit({self.size})"
        else:
            text = f"{self.kind}({self.scale})" if self.scale else self.kind
        return f"{text} unsigned" if self.is_unsigned else text


class CatalogColumn(NamedTuple):
    """A row of ``information_schema.columns``."""

    table: str
    name: str
    kind: str
    type_text: str
    octets: int | None
    precision: int | None
    scale: int | None
    fraction: int | None
    charset: str | None
    is_optional: bool


def of_catalog(column: CatalogColumn, charsets: Mapping[str, Charset]) -> Spec:
    """Describe a column, given its row of the catalog; raises SourceRefused."""
    kind, found = column.kind.lower(), Spec(column.name, column.kind.lower(), column.is_optional)
    is_unsigned = "unsigned" in column.type_text.lower().rpartition(")")[2] and kind != "year"
    more: dict[str, object] = {}
    if kind in INTEGERS or kind in ("float", "double"):
        more = {"is_unsigned": is_unsigned}
    elif kind == "decimal":
        more = {
            "is_unsigned": is_unsigned,
            "size": column.precision or 0,
            "scale": column.scale or 0,
        }
    elif kind == "bit":
        more = {"size": column.precision or 0}
    elif kind in _FRACTIONS.values():
        more = {"scale": column.fraction or 0}
    elif kind in _BYTES or kind in _TEXTS:
        sized = kind in ("char", "varchar", "binary", "varbinary")
        more = {"size": column.octets or 0} if sized else {}
        if kind in _TEXTS:
            charset = charsets.get(column.charset or "", Charset(column.charset or "", 1))
            more |= {"encoding": _encoding(charset, column.name), "max_bytes": charset.max_bytes}
    elif kind in ("enum", "set"):
        labels = [each.replace("''", "'") for each in _LABEL.findall(column.type_text)]
        more = {"labels": tuple(labels)}
    elif kind in _SHAPES:
        more = {"kind": "point" if kind == "point" else "geometry"}
    elif kind not in ("year", "date", *CODED):
        raise _unsupported(column.name, column.type_text)
    return msgspec.structs.replace(found, **more)


def of_binlog(column: RawColumn, charsets: Mapping[int, Charset], coded: str) -> Spec:
    """Describe a column, given its table map event.

    ``coded`` is its type in the catalog, as the binlog has one code for several types.
    """
    name, optional, kind, meta = column.name, column.optional, column.type, column.meta
    charset = charsets.get(column.collation or 0, _BINARY)
    if kind in (Type.ENUM, Type.SET):
        encoding = _encoding(charset, name)
        labels = tuple(each.decode(encoding, "replace") for each in column.labels)
        return Spec(name, "enum" if kind == Type.ENUM else "set", optional, labels=labels)
    if kind == Type.STRING and CODED.get(coded) == meta and charset.name == "binary":
        return Spec(name, coded, optional)
    if kind in (Type.STRING, Type.VARCHAR, Type.VAR_STRING):
        begin = "" if kind == Type.STRING else "var"
        found = Spec(name, f"{begin}binary", optional, size=meta)
        return _as_text(found, f"{begin}char", charset)
    if kind == Type.BLOB:
        return _as_text(Spec(name, f"{_SIZES[meta]}blob", optional), f"{_SIZES[meta]}text", charset)
    return _number_or_time(column)


_BINARY = Charset("binary", 1)


def _as_text(found: Spec, kind: str, charset: Charset) -> Spec:
    if charset.name == "binary":
        return found
    encoding = _encoding(charset, found.name)
    return msgspec.structs.replace(found, kind=kind, encoding=encoding, max_bytes=charset.max_bytes)


def _number_or_time(column: RawColumn) -> Spec:
    name, optional, kind, meta = column.name, column.optional, column.type, column.meta
    if kind == Type.GEOMETRY and column.shape == _POINT:
        return Spec(name, "point", optional)
    if (plain := _PLAIN.get(kind)) is not None:
        return Spec(name, plain, optional, column.is_unsigned and plain != "year")
    if kind == Type.NEWDECIMAL:
        return Spec(name, "decimal", optional, column.is_unsigned, meta & 255, meta >> 8)
    if kind == Type.BIT:
        return Spec(name, "bit", optional, size=(meta >> 8) * 8 + (meta & 255))
    if (fraction := _FRACTIONS.get(kind)) is not None:
        return Spec(name, fraction, optional, scale=meta)
    if (old := _OLD.get(kind)) is not None:
        raise SourceRefused(
            f"column {name} has the old format of {old}: set mysql56_temporal_format=ON and "
            "rebuild the table (ALTER TABLE … FORCE)"
        )
    raise _unsupported(name, f"number {kind} of the binlog")


def _encoding(charset: Charset, column: str) -> str:
    if charset.name == "binary":
        return "utf-8"
    found = _ENCODINGS.get(charset.name)
    if found is None:
        raise SourceRefused(
            f"column {column} has the character set {charset.name}, which is not supported: leave "
            "the column's table out, or convert it to utf8mb4"
        )
    return found


def _unsupported(column: str, kind: str) -> SourceRefused:
    return SourceRefused(
        f"column {column} is of type {kind}, which is not supported: leave its table out"
    )
