"""Generates the Python source of an encoder for one message in one version.

How this works. As in decoders.py, nested structs are encoded inline, and adjacent fixed-size values
are one pack. In the source, ``a`` adds bytes to the list ``parts``. At the end, and before each
field of records, the parts are joined into one buffer of the ``frame``. Large records are a buffer
of their own: they are not copied, and may be a range of a file. ``n`` is the length about to be
written, in wire form: plus one if flexible.
"""

from collections.abc import Callable
from functools import cache
from struct import Struct
from typing import cast

from mainstem.core.wire import Piece
from mainstem.kafka_protocol import primitives
from mainstem.kafka_protocol.code_writer import Source
from mainstem.kafka_protocol.fields import Field, Shape, Wire, layout
from mainstem.kafka_protocol.primitives import SMALL_COUNT, packers

Encoder = Callable[[Wire, list[Piece]], None]
"""Encodes a message into a frame's list of buffers; the first buffer that it adds is bytes."""

_LENGTHS = {"string": "h", "bytes": "i", "records": "i", "array": "i"}


@cache
def encoder(message: type[Wire], version: int, flexible: bool) -> Encoder:
    """Return the encoder of a message in one version; generated and compiled at first use."""
    writer = _Writer(f"{message.__name__} v{version}", version, flexible)
    writer.source.add("parts = []")
    writer.source.add("a = parts.append")
    writer.struct(message, "message")
    writer.flush()
    writer.source.add("frame.append(b''.join(parts))")
    name = f"encode_{message.__name__}_v{version}"
    return cast(Encoder, writer.source.compile(name, "message, frame"))


class _Writer:
    def __init__(self, title: str, version: int, flexible: bool) -> None:
        self.title, self.version, self.flexible = title, version, flexible
        self.source = Source(vars(primitives))
        # Adjacent fixed-size values, collected to be packed together.
        self.codes = ""
        self.values: list[str] = []
        self.adder = "a"

    def flush(self) -> None:
        """Generate the packing of the fixed-size values collected so far."""
        if self.codes:
            self.source.add(f"{self.adder}({self.packed()})")
        self.codes, self.values = "", []

    def packed(self) -> str:
        """Return the expression that packs the fixed-size values collected so far."""
        if not self.values:
            return repr(bytes(len(self.codes)))
        pack = self.source.constant(Struct(">" + self.codes).pack)
        return f"{pack}({', '.join(self.values)})"

    def write(self, code: str, value: str) -> None:
        """Collect a fixed-size value, to be packed together with others."""
        self.codes += code
        self.values.append(value)

    def struct(self, struct: type[Wire], value: str) -> None:
        """Generate the inline encoding of a struct."""
        fields = layout(struct, self.version)
        for field in fields:
            if field.shape is None:
                self.absent(field, f"{value}.{field.name}")
            elif field.tag is None:
                self.value(field.shape, f"{value}.{field.name}")
        if self.flexible:
            self.tags(fields, value)

    def absent(self, field: Field, value: str) -> None:
        """Generate a check that no value is lost because this version lacks the field."""
        if not field.ignorable:
            what = f"{self.title} has no {field.name}"
            self.source.add(f"if {self.differs(field, value)}: raise ValueError({what!r})")

    def differs(self, field: Field, value: str) -> str:
        """Return the condition that a field differs from its default.

        With the default (), no empty sequence differs.
        """
        if field.default == ():
            return value
        default = self.source.constant(field.default)
        return f"{value} is not {default} and {value} != {default}"

    def value(self, shape: Shape, value: str) -> None:
        """Generate the source that encodes ``value``, the expression of a value of this shape."""
        if shape.kind == "fixed":
            self.write(shape.code, value)
        elif shape.kind == "struct":
            self.nested(shape, value)
        elif shape.kind == "array":
            self.array(shape, value)
        else:
            self.sized(shape, value)

    def nested(self, shape: Shape, value: str) -> None:
        """Generate the source that encodes a struct that is a field or an element, perhaps null."""
        assert shape.struct is not None
        if not shape.nullable:
            self.struct(shape.struct, value)
            return
        inner = self.source.variable()
        self.source.add(f"{inner} = {value}")
        self.flush()
        self.source.add(f"if {inner} is None: {self.adder}(b'\\xff')")
        self.source.open("else:")
        self.write("b", "1")
        self.struct(shape.struct, inner)
        self.flush()
        self.source.close()

    def sized(self, shape: Shape, value: str) -> None:
        """Generate the source that encodes a string, bytes or records."""
        inner = self.source.variable()
        add = self.source.add
        add(f"{inner} = {value}")
        if shape.nullable:
            add(f"if {inner} is None: n, {inner} = {0 if self.flexible else -1}, b''")
            self.source.open("else:")
        if shape.kind == "string":
            add(f"{inner} = {inner}.encode()")
        size = f"size_of({inner})" if shape.kind == "records" else f"len({inner})"
        add(f"n = {size} + 1" if self.flexible else f"n = {size}")
        if shape.nullable:
            self.source.close()
        self.length(shape)
        if shape.kind == "records":
            add(f"put_records({inner}, parts, frame)")
        else:
            add(f"{self.adder}({inner})")

    def length(self, shape: Shape) -> None:
        """Generate the source that packs the values collected so far, and then the length ``n``."""
        if not self.flexible:
            self.write(_LENGTHS[shape.kind], "n")
            self.flush()
            return
        longer = "write_string_length(n)" if shape.kind == "string" else "write_uvarint(n)"
        add = self.source.add
        before = self.packed() if self.codes else ""
        self.write("B", "n")
        add(f"if n < 128: {self.adder}({self.packed()})")
        add(f"else: {self.adder}({before}{' + ' if before else ''}{longer})")
        self.codes, self.values = "", []

    def array(self, shape: Shape, value: str) -> None:
        """Generate the encoding of an array, which may be null."""
        assert shape.element is not None
        inner = self.source.variable()
        add = self.source.add
        add(f"{inner} = {value}")
        if shape.element.kind == "fixed" and not shape.nullable:
            self.numbers(shape.element, inner)
            return
        if shape.nullable:
            add(f"if {inner} is None: n, {inner} = {0 if self.flexible else -1}, ()")
            add(f"else: n = len({inner}){' + 1' if self.flexible else ''}")
        else:
            add(f"n = len({inner}){' + 1' if self.flexible else ''}")
        self.length(shape)
        element = self.source.variable()
        self.source.open(f"for {element} in {inner}:")
        self.value(shape.element, element)
        self.flush()
        self.source.close()

    def numbers(self, element: Shape, value: str) -> None:
        """Generate the encoding of an array of fixed-size values.

        A short array is packed in one call, together with the values collected so far.
        """
        before = f"{self.packed()} + " if self.codes else ""
        self.source.add(f"n = len({value}){' + 1' if self.flexible else ''}")
        self.write("B" if self.flexible else "i", "n")
        table = self.source.constant(packers(self.codes, element.code))
        short = f"{table}[len({value})]({', '.join(self.values)}, *{value})"
        length = "write_uvarint(n)" if self.flexible else "write_int32(n)"
        many = f"{before}{length} + write_many({element.code!r}, {value})"
        self.source.add(f"{self.adder}({short} if n < {SMALL_COUNT} else {many})")
        self.codes, self.values = "", []

    def tags(self, fields: tuple[Field, ...], value: str) -> None:
        """Generate the encoding of the tagged fields whose values differ from the defaults."""
        tagged = [field for field in fields if field.tag is not None and field.shape is not None]
        if not tagged:
            self.codes += "x"
            return
        self.flush()
        tags, parts, outer = self.source.variable(), self.source.variable(), self.adder
        add = self.source.add
        add(f"{tags} = []")
        for field in sorted(tagged, key=lambda field: field.tag or 0):
            assert field.shape is not None
            self.source.open(f"if {self.differs(field, f'{value}.{field.name}')}:")
            add(f"{parts} = []")
            self.adder = f"{parts}.append"
            self.value(field.shape, f"{value}.{field.name}")
            self.flush()
            self.adder = outer
            add(f"{tags}.append(({field.tag}, b''.join({parts})))")
            self.source.close()
        add(f"{outer}(write_tags({tags}) if {tags} else b'\\0')")
