"""Messages of pgoutput: what is encoded decodes to the same, and anything else is refused."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstem.connectors.postgres.pgoutput import (
    EPOCH_US,
    UNCHANGED,
    BadMessage,
    BeginMessage,
    CommitMessage,
    Delete,
    Insert,
    Message,
    Relation,
    RelationColumn,
    Truncate,
    Update,
    Values,
    decode,
)

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
NAME = TEXT.filter(bool)
OID = st.integers(0, 2**32 - 1)
LSN = st.integers(0, 2**64 - 1)
TIME = st.integers(-(2**62), 2**62)
VALUES = st.lists(st.none() | st.just(UNCHANGED) | st.text(max_size=30), max_size=6)
COLUMN = st.builds(RelationColumn, NAME, OID, st.integers(-1, 2**31 - 1), st.booleans())
MESSAGES = st.one_of(
    st.builds(BeginMessage, LSN, TIME, OID),
    st.builds(CommitMessage, LSN, LSN, TIME),
    st.builds(
        Relation,
        OID,
        NAME,
        NAME,
        st.sampled_from("dnfi"),
        st.lists(COLUMN, max_size=5).map(tuple),
    ),
    st.builds(Insert, OID, VALUES),
    st.builds(Update, OID, VALUES, st.booleans(), VALUES),
    st.builds(Update, OID, st.none(), st.just(False), VALUES),
    st.builds(Delete, OID, VALUES, st.booleans()),
    st.builds(Truncate, st.lists(OID, max_size=4).map(tuple)),
)


def written(values: Values) -> bytes:
    parts = [struct.pack(">H", len(values))]
    for value in values:
        if value is None:
            parts.append(b"n")
        elif value is UNCHANGED:
            parts.append(b"u")
        else:
            text = str(value).encode()
            parts.append(b"t" + struct.pack(">I", len(text)) + text)
    return b"".join(parts)


def encode(message: Message) -> bytes:  # noqa: PLR0911 - one for each kind
    match message:
        case BeginMessage(lsn, time_us, xid):
            return b"B" + struct.pack(">QqI", lsn, time_us - EPOCH_US, xid)
        case CommitMessage(lsn, end_lsn, time_us):
            return b"C" + struct.pack(">BQQq", 0, lsn, end_lsn, time_us - EPOCH_US)
        case Relation(oid, schema, name, identity, columns):
            head = struct.pack(">I", oid) + schema.encode() + b"\0" + name.encode() + b"\0"
            parts = [
                bytes([each.is_key])
                + each.name.encode()
                + b"\0"
                + struct.pack(">Ii", each.type_oid, each.type_modifier)
                for each in columns
            ]
            body = struct.pack(">H", len(columns)) + b"".join(parts)
            return b"R" + head + identity.encode() + body
        case Insert(oid, new):
            return b"I" + struct.pack(">I", oid) + b"N" + written(new)
        case Update(oid, old, old_is_key, new):
            before = b"" if old is None else (b"K" if old_is_key else b"O") + written(old)
            return b"U" + struct.pack(">I", oid) + before + b"N" + written(new)
        case Delete(oid, old, old_is_key):
            return b"D" + struct.pack(">I", oid) + (b"K" if old_is_key else b"O") + written(old)
        case Truncate(relations):
            count = len(relations)
            return b"T" + struct.pack(f">IB{count}I", count, 0, *relations)
    raise AssertionError(message)


@given(MESSAGES)
def test_what_is_encoded_decodes_to_the_same(message: Message) -> None:
    assert decode(encode(message)) == message


@given(MESSAGES, st.data())
def test_a_message_that_is_cut_or_too_long_is_refused(
    message: Message, data: st.DataObject
) -> None:
    whole = encode(message)
    cut = data.draw(st.integers(0, len(whole) - 1))

    with pytest.raises(BadMessage):
        decode(whole[:cut])
    with pytest.raises(BadMessage):
        decode(whole + b"\0")


@given(st.binary(max_size=200), st.sampled_from(b"BCRIUDTYOM?"))
def test_any_bytes_are_a_message_or_are_refused(data: bytes, kind: int) -> None:
    try:
        decode(bytes([kind]) + data)
    except BadMessage:
        return


@given(MESSAGES, st.integers(0, 10_000), st.integers(0, 255))
def test_a_changed_byte_gives_a_message_or_is_refused(
    message: Message, place: int, value: int
) -> None:
    data = bytearray(encode(message))
    data[place % len(data)] = value
    try:
        decode(bytes(data))
    except BadMessage:
        return
