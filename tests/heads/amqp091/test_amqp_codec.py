"""AMQP's frames, methods, properties and tables: written, read, and compared with pamqp."""

import math
from datetime import UTC, datetime
from decimal import Decimal
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pamqp import body as pamqp_body
from pamqp import commands, header
from pamqp import decode as pamqp_decode
from pamqp import encode as pamqp_encode
from pamqp import frame as pamqp_frame
from pamqp.base import Frame as PamqpMethod
from tests.heads.amqp091.values import (
    SECONDS,
    SHORT,
    TABLES,
    THEIR_KINDS,
    THEIR_TABLES,
    drawn,
    layout,
)

from mainstem.heads.amqp091 import codec, fields, methods
from mainstem.heads.amqp091.errors import AmqpError, ReplyCode
from mainstem.heads.amqp091.fields import Binary, Timestamp, Value, read_table, table
from mainstem.heads.amqp091.methods import METHODS, Bare, Ids, decode_method, encode_method
from mainstem.heads.amqp091.properties import (
    NO_PROPERTIES,
    Properties,
    decode_properties,
    encode_properties,
)

PROPERTIES = st.builds(
    Properties,
    headers=st.none() | THEIR_TABLES,
    delivery_mode=st.none() | st.integers(0, 255),
    priority=st.none() | st.integers(0, 255),
    timestamp=st.none() | SECONDS,
    **{
        name: st.none() | SHORT
        for name in Properties.__struct_fields__
        if name not in ("headers", "delivery_mode", "priority", "timestamp")
    },
)


def as_pamqp(value: object) -> object:
    """Return a value as pamqp has it."""
    match value:
        case Timestamp():
            return datetime.fromtimestamp(value.seconds, UTC)
        case Binary():
            return bytearray(value)
        case dict():
            return {name: as_pamqp(each) for name, each in value.items()}
        case list():
            return [as_pamqp(each) for each in value]
    return value


every_method = pytest.mark.parametrize("ids", METHODS, ids=[m.__name__ for m in METHODS.values()])
a_few = settings(max_examples=20)
# RabbitMQ and its clients know Basic.Recover-Async all the same.
pytestmark = pytest.mark.filterwarnings("ignore:This command is deprecated in AMQP 0-9-1")


def pamqp_class(ids: Ids) -> type[PamqpMethod]:
    found: type[PamqpMethod] = commands.INDEX_MAPPING[ids[0] << 16 | ids[1]]
    return found


# Methods


def test_every_method_that_pamqp_knows_is_known() -> None:
    assert {*METHODS, *(each.ids for each in Bare)} == {
        (index >> 16, index & 0xFFFF) for index in commands.INDEX_MAPPING
    }


@every_method
@a_few
@given(data=st.data())
def test_a_method_is_written_and_read_as_pamqp_does(ids: Ids, data: st.DataObject) -> None:
    method = data.draw(drawn(METHODS[ids]))
    written = encode_method(method)
    theirs = pamqp_class(ids)()

    theirs.unmarshal(written[4:])

    assert decode_method(written) == method
    names = zip(theirs.attributes(), layout(METHODS[ids]), strict=True)
    for their_name, (name, kind) in names:
        ours, other = getattr(method, name), getattr(theirs, their_name)
        if kind == "longstr" and isinstance(other, str):
            other = other.encode()
        assert other == as_pamqp(ours), name


@every_method
@a_few
@given(data=st.data())
def test_what_pamqp_writes_is_read(ids: Ids, data: st.DataObject) -> None:
    method = data.draw(drawn(METHODS[ids], THEIR_KINDS))
    theirs = pamqp_class(ids)()
    names = zip(theirs.attributes(), layout(METHODS[ids]), strict=True)
    for their_name, (name, kind) in names:
        value = getattr(method, name)
        setattr(theirs, their_name, value.decode() if kind == "longstr" else as_pamqp(value))

    # It refuses what no server has to take; that is not what this is about.
    with patch.object(type(theirs), "validate", lambda _: None):
        written = pamqp_frame.marshal(theirs, 7)

    assert written[:3] == b"\1\0\7"
    assert decode_method(written[7:-1]) == method


@pytest.mark.parametrize("bare", Bare)
def test_a_method_without_fields_is_what_pamqp_writes(bare: Bare) -> None:
    assert pamqp_frame.marshal(pamqp_class(bare.ids)(), 3) == codec.method_frame(3, bare)
    assert decode_method(encode_method(bare)) is bare


@every_method
@a_few
@given(data=st.data())
def test_a_method_that_is_cut_off_or_goes_on_is_malformed(ids: Ids, data: st.DataObject) -> None:
    whole = encode_method(data.draw(drawn(METHODS[ids])))

    for wrong in (*(whole[:size] for size in range(4, len(whole))), whole + b"\0"):
        with pytest.raises(AmqpError) as found:
            decode_method(wrong)
        assert found.value.code is ReplyCode.SYNTAX_ERROR
        assert (found.value.class_id, found.value.method_id) == ids


@pytest.mark.parametrize("ids", [(0, 0), (10, 12), (20, 99), (60, 41), (99, 10), (65535, 65535)])
def test_an_unknown_class_or_method_is_an_invalid_command(ids: Ids) -> None:
    with pytest.raises(AmqpError, match="COMMAND_INVALID - unknown method") as found:
        decode_method(b"".join(each.to_bytes(2, "big") for each in ids))

    assert (found.value.class_id, found.value.method_id) == ids


@pytest.mark.parametrize("size", range(4))
def test_a_method_frame_has_a_class_and_a_method(size: int) -> None:
    with pytest.raises(AmqpError, match="SYNTAX_ERROR"):
        decode_method(bytes(size))


def test_bad_utf8_in_a_name_is_malformed() -> None:
    with pytest.raises(AmqpError, match="SYNTAX_ERROR - malformed UTF-8") as found:
        decode_method(b"\0\x32\0\x0a\0\0\x02\xff\xfe\0\0\0\0\0")

    assert found.value.class_id == 50


def test_a_short_string_past_the_frame_is_malformed() -> None:
    with pytest.raises(AmqpError, match="a short string goes past the end"):
        decode_method(b"\0\x32\0\x0a\0\0\xffq")


# Tables


@given(values=TABLES)
def test_a_table_comes_back_as_it_was(values: dict[str, Value]) -> None:
    written = table(values)

    found, end = read_table(written, 0, len(written))

    assert (found, end) == (values, len(written))
    assert types(found) == types(values)
    assert table(found) == written


def types(value: object) -> object:
    """Return the types in a value: True equals 1."""
    match value:
        case dict():
            return {name: types(each) for name, each in value.items()}
        case list():
            return [types(each) for each in value]
    return type(value)


@given(values=TABLES)
def test_pamqp_reads_the_same_table(values: dict[str, Value]) -> None:
    written = table(values)

    assert pamqp_decode.field_table(written) == (len(written), as_pamqp(values))


@given(values=THEIR_TABLES)
def test_the_same_table_of_pamqp_is_read(values: dict[str, Value]) -> None:
    theirs = as_pamqp(values)
    assert isinstance(theirs, dict)
    written = pamqp_encode.field_table(theirs)

    assert read_table(written, 0, len(written))[0] == values


@pytest.mark.parametrize(
    ("written", "value"),
    [
        (b"t\2", True),
        (b"b\xff", fields.Octet(-1)),
        (b"B\xff", fields.UnsignedOctet(255)),
        (b"s\xff\xfe", fields.Short(-2)),
        (b"u\xff\xfe", fields.UnsignedShort(65534)),
        (b"I\xff\xff\xff\xff", -1),
        (b"i\xff\xff\xff\xff", fields.UnsignedInt(2**32 - 1)),
        (b"l\xff\xff\xff\xff\xff\xff\xff\xff", fields.Long(-1)),
        (b"l\0\0\0\1\0\0\0\0", 2**32),
        (b"L\xff\xff\xff\xff\xff\xff\xff\xff", fields.Long(-1)),
        (b"f\x3f\xc0\0\0", fields.Single(1.5)),
        (b"d\x3f\xf8\0\0\0\0\0\0", 1.5),
        (b"D\2\0\0\0\x7b", Decimal("1.23")),
        (b"D\xff\0\0\0\1", Decimal("1E-255")),
        (b"D\1\xff\xff\xff\xff", Decimal("-0.1")),
        (b"S\0\0\0\2\xc3\xa9", "é"),
        (b"S\0\0\0\1\xe9", b"\xe9"),
        (b"x\0\0\0\1a", Binary(b"a")),
        (b"T\xff\xff\xff\xff\xff\xff\xff\xff", Timestamp(2**64 - 1)),
        (b"A\0\0\0\3Vt\0", [None, False]),
        (b"F\0\0\0\3\1aV", {"a": None}),
        (b"V", None),
    ],
)
def test_every_type_of_rabbitmq_is_read(written: bytes, value: Value) -> None:
    whole = fields.long_string(b"\1k" + written)

    found, _ = read_table(whole, 0, len(whole))

    assert found == {"k": value}
    assert type(found["k"]) is type(value)
    again = table(found)
    assert read_table(again, 0, len(again))[0] == found
    if written[:1] not in (b"t", b"L"):
        assert again == whole


def test_not_a_number_is_a_float() -> None:
    written = table({"k": math.nan})

    found = read_table(written, 0, len(written))[0]["k"]

    assert isinstance(found, float)
    assert math.isnan(found)


@given(letter=st.integers(0, 255).filter(lambda it: it not in b"tbBsuIilLfdDSxTAFV"))
def test_an_unknown_type_is_malformed(letter: int) -> None:
    whole = fields.long_string(b"\1k" + bytes([letter]) + bytes(20))

    with pytest.raises(AmqpError, match="SYNTAX_ERROR - unknown table value type"):
        read_table(whole, 0, len(whole))


@given(values=TABLES.filter(bool))
def test_a_table_that_is_cut_off_is_malformed(values: dict[str, Value]) -> None:
    written = table(values)

    for size in range(len(written)):
        with pytest.raises(AmqpError, match="SYNTAX_ERROR"):
            read_table(written[:size], 0, size)


@pytest.mark.parametrize(
    "inner",
    [b"S\0\0\0\5ab", b"F\0\0\0\x09\1a", b"A\0\0\0\2V", b"x\xff\xff\xff\xff", b"I\0\0", b"D\0", b""],
)
def test_what_is_in_a_table_stays_in_it(inner: bytes) -> None:
    whole = fields.long_string(b"\1k" + inner) + bytes(100)

    with pytest.raises(AmqpError, match="SYNTAX_ERROR"):
        read_table(whole, 0, len(whole))


@pytest.mark.parametrize("depth", [fields.MAX_DEPTH + 1, 500, 20_000])
@pytest.mark.parametrize(("begin", "wrapped"), [(b"\1kF", b"\1kF"), (b"\1kA", b"A")])
def test_tables_nest_only_so_deep(depth: int, begin: bytes, wrapped: bytes) -> None:
    whole = b""
    for level in range(depth):
        whole = (begin if level == depth - 1 else wrapped) + fields.long_string(whole)

    with pytest.raises(AmqpError, match=r"SYNTAX_ERROR - tables nest more than 64 deep"):
        fields.read_bare_table(whole, 0, len(whole))


def test_tables_nest_as_deep_as_is_allowed() -> None:
    values: Value = 1
    for _ in range(fields.MAX_DEPTH):
        values = {"k": values}
    assert isinstance(values, dict)
    written = table(values)

    assert read_table(written, 0, len(written))[0] == values


def test_the_last_of_equal_names_counts() -> None:
    whole = fields.long_string(b"\1kt\0\1kt\1")

    assert read_table(whole, 0, len(whole))[0] == {"k": True}


@pytest.mark.parametrize(
    "value",
    [2**63, -(2**63) - 1, Decimal("NaN"), Decimal("1E-256"), Decimal("1E+999999"), Decimal(2**31)],
)
def test_what_has_no_place_in_a_table_is_not_written(value: Value) -> None:
    with pytest.raises(ValueError, match=r".+"):
        table({"k": value})


def test_a_short_string_has_at_most_255_bytes() -> None:
    assert fields.short_string("é" * 127) == b"\xfe" + "é".encode() * 127
    with pytest.raises(ValueError, match="at most 255 bytes"):
        fields.short_string("é" * 128)


# Properties


@given(properties=PROPERTIES)
def test_properties_come_back_as_they_were(properties: Properties) -> None:
    assert decode_properties(encode_properties(properties)) == properties


def their_name(name: str) -> str:
    return "message_type" if name == "type" else name


@given(properties=PROPERTIES)
def test_pamqp_reads_the_same_properties(properties: Properties) -> None:
    raw = encode_properties(properties)
    payload = b"\0\x3c\0\0" + (5).to_bytes(8, "big") + raw
    _, _, found = pamqp_frame.unmarshal(codec.frame(codec.HEADER, 1, payload))

    assert isinstance(found, header.ContentHeader)
    assert found.body_size == 5
    for name in Properties.__struct_fields__:
        ours = getattr(properties, name)
        if name == "timestamp" and ours is not None:
            ours = Timestamp(ours)
        # Without a cluster id it has an empty one.
        assert (getattr(found.properties, their_name(name)) or None) == (as_pamqp(ours) or None)


@given(properties=PROPERTIES)
def test_the_same_properties_of_pamqp_are_read(properties: Properties) -> None:
    theirs = commands.Basic.Properties()
    for name in Properties.__struct_fields__:
        ours = getattr(properties, name)
        if name == "timestamp" and ours is not None:
            ours = Timestamp(ours)
        setattr(theirs, their_name(name), as_pamqp(ours))

    found = decode_properties(theirs.marshal())

    for name in Properties.__struct_fields__:
        # It does not write what is empty.
        assert getattr(found, name) == (getattr(properties, name) or getattr(found, name)), name


@given(properties=PROPERTIES)
def test_properties_that_are_cut_off_or_go_on_are_malformed(properties: Properties) -> None:
    raw = encode_properties(properties)

    for wrong in (*(raw[:size] for size in range(len(raw))), raw + b"\0"):
        with pytest.raises(AmqpError, match="SYNTAX_ERROR") as found:
            decode_properties(wrong)
        assert (found.value.class_id, found.value.method_id) == (60, 40)


@pytest.mark.parametrize("flags", [b"\0\1", b"\0\2", b"\x80\1\1a\0\0"])
def test_flags_that_mean_nothing_are_malformed(flags: bytes) -> None:
    with pytest.raises(AmqpError, match="unknown property flags"):
        decode_properties(flags)


def test_no_properties() -> None:
    assert decode_properties(NO_PROPERTIES) == Properties()
    assert encode_properties(Properties()) == NO_PROPERTIES


# Content


def unmarshalled(data: bytes) -> list[tuple[int, object]]:
    """Return what pamqp reads, with the channels."""
    found: list[tuple[int, object]] = []
    while data:
        size, channel, each = pamqp_frame.unmarshal(data)
        found.append((channel, each))
        data = data[size:]
    return found


BODIES = st.binary(max_size=300) | st.integers(4000, 40_000).map(bytes)


@given(
    channel=st.integers(1, 65535),
    tags=st.tuples(SHORT, st.integers(1, 2**63 - 1), st.booleans()),
    names=st.tuples(SHORT, SHORT),
    properties=PROPERTIES,
    body=BODIES,
    frame_max=st.sampled_from([4096, 8192, 131_072]),
)
@example(1, ("c", 1, False), ("", "q"), Properties(), bytes(4088), 4096)
@example(1, ("c", 1, False), ("", "q"), Properties(), bytes(4089), 4096)
@example(1, ("c", 1, False), ("", "q"), Properties(), bytes(2 * 4088), 4096)
def test_content_is_what_pamqp_reads(
    channel: int,
    tags: tuple[str, int, bool],
    names: tuple[str, str],
    properties: Properties,
    body: bytes,
    frame_max: int,
) -> None:
    consumer_tag, tag, redelivered = tags
    route, raw = codec.route_of(*names), encode_properties(properties)
    short = fields.short_string(consumer_tag)
    content = raw, body, frame_max
    text = consumer_tag
    said = {
        "deliver": codec.deliver_frames(channel, short, tag, redelivered, route, *content),
        "get": codec.get_ok_frames(channel, tag, redelivered, route, 9, *content),
        "return": codec.return_frames(channel, ReplyCode.NO_ROUTE, text, route, *content),
    }
    for name, pieces in said.items():
        (at, method), (_, head), *parts = unmarshalled(b"".join(pieces))

        assert at == channel
        assert isinstance(head, header.ContentHeader)
        assert head.body_size == len(body)
        sizes = []
        for part_channel, part in parts:
            assert part_channel == channel
            assert isinstance(part, pamqp_body.ContentBody)
            sizes.append(len(part))
        assert sum(sizes) == len(body)
        assert all(0 < size <= frame_max - 8 for size in sizes)
        assert len(sizes) == math.ceil(len(body) / (frame_max - 8))
        assert b"".join(bytes(part.value) for _, part in parts) == body  # type: ignore[attr-defined]
        match method:
            case commands.Basic.Deliver():
                found = method.consumer_tag, method.delivery_tag, method.redelivered
                assert found == tags
            case commands.Basic.GetOk():
                assert (method.delivery_tag, method.redelivered) == (tag, redelivered)
                assert method.message_count == 9
            case commands.Basic.Return():
                assert (method.reply_code, method.reply_text) == (312, text)
            case _:
                pytest.fail(f"{name}: {method}")
        assert (method.exchange, method.routing_key) == names


def test_a_small_message_is_one_piece() -> None:
    assert len(codec.deliver_frames(1, b"\1c", 1, False, b"\0\1q", b"\0\0", b"hi", 131_072)) == 1


@given(channel=st.integers(1, 65535), tag=st.integers(1, 2**64 - 1), multiple=st.booleans())
def test_confirms_are_what_the_methods_say(channel: int, tag: int, multiple: bool) -> None:
    ack, nack = methods.BasicAck(tag, multiple), methods.BasicNack(tag, multiple, False)

    assert codec.ack_frame(channel, tag, multiple=multiple) == codec.method_frame(channel, ack)
    assert codec.nack_frame(channel, tag, multiple=multiple) == codec.method_frame(channel, nack)


# Frames


@given(data=st.binary(max_size=6))
def test_a_frame_that_has_just_begun_has_no_size(data: bytes) -> None:
    assert codec.frame_size(memoryview(data), 4096) is None


@pytest.mark.parametrize("size", [0, 1, 4088, 4096])
def test_a_frame_has_its_payload_and_eight_bytes(size: int) -> None:
    assert codec.frame_size(memoryview(codec.HEAD.pack(1, 0, size)), 4096) == size + 8


@pytest.mark.parametrize("size", [4097, 2**31 - 1, 2**31, 2**32 - 1])
def test_a_frame_over_the_limit_is_refused_by_its_size(size: int) -> None:
    with pytest.raises(AmqpError, match=r"FRAME_ERROR - type 3, .*frame_too_large") as found:
        codec.frame_size(memoryview(codec.HEAD.pack(3, 1, size)), 4096)

    assert found.value.is_hard
