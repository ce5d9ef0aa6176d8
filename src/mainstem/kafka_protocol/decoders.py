"""Generates the Python source of a decoder for one message in one version.

How this works. Python spends its time on calls, so a decoder has as few as possible: nested structs
are decoded inline, and adjacent fixed-size values (numbers, the length of the string that follows,
the count of tagged fields) are one unpack_from. In the source, ``view`` is the frame, ``end`` its
size, ``at`` the current position, ``room`` the number of elements that arrays may still hold; ``n``
is a length just read, and ``stop`` the position after that many bytes.

Nothing is allocated because of an unchecked number from the peer: a length is compared with the
remaining bytes, a count times the minimum size of an element too, and all counts together with
``room``.
"""

from collections.abc import Callable
from functools import cache
from struct import Struct, unpack_from
from typing import cast

import msgspec

from mainstem.kafka_protocol import primitives
from mainstem.kafka_protocol.code_writer import Source
from mainstem.kafka_protocol.fields import Field, Shape, Wire, constructor, layout

Decoder = Callable[[memoryview, int, int], tuple[Wire, int]]
"""Decodes a message in a frame, given the position where it begins and the number of elements that
arrays may have; returns the message and the position after it.
"""

_LENGTHS = {"string": ("h", 2), "bytes": ("i", 4), "records": ("i", 4), "array": ("i", 4)}


@cache
def decoder(message: type[Wire], version: int, flexible: bool) -> Decoder:
    """Return the decoder of a message in one version; generated and compiled at first use."""
    writer = _Writer(version, flexible)
    writer.source.add("end = len(view)")
    result = writer.struct(message)
    writer.flush()
    writer.source.add(f"return {result}, at")
    name = f"decode_{message.__name__}_v{version}"
    return cast(Decoder, writer.source.compile(name, "view, at, room"))


class _Run(msgspec.Struct):
    """Adjacent fixed-size values, collected so that one unpack_from decodes them."""

    codes: str = ""
    size: int = 0
    targets: list[str] = msgspec.field(default_factory=list)


class _Writer:
    def __init__(self, version: int, flexible: bool) -> None:
        self.version, self.flexible = version, flexible
        self.source = Source(vars(primitives))
        self.source.constants |= {"unpack_from": unpack_from}
        self.run = _Run()

    def flush(self) -> None:
        """Generate the unpacking of the fixed-size values collected so far."""
        run, self.run = self.run, _Run()
        if run.codes == "B":
            self.source.add(f"{run.targets[0]} = view[at]")
            self.source.add("at += 1")
        elif run.targets:
            unpack = self.source.constant(Struct(">" + run.codes).unpack_from)
            self.source.add(f"{', '.join(run.targets)}, = {unpack}(view, at)")
            self.source.add(f"at += {run.size}")

    def read(self, code: str, size: int, target: str) -> None:
        """Collect a fixed-size value, to be unpacked together with others."""
        self.run.codes += code
        self.run.size += size
        self.run.targets.append(target)

    def struct(self, struct: type[Wire]) -> str:
        """Generate the inline decoding of a struct; return the expression that creates it."""
        fields = layout(struct, self.version)
        values: dict[str, str] = {}
        for field in fields:
            if field.shape is not None and field.tag is None:
                values[field.name] = self.value(field.shape, field.name)
        if self.flexible:
            self.tags([field for field in fields if field.tag is not None], values)
        arguments = [
            values.get(field.name) or self.source.constant(field.default) for field in fields
        ]
        while arguments and fields[len(arguments) - 1].name not in values:
            arguments.pop()
        return f"{self.source.constant(constructor(struct))}({', '.join(arguments)})"

    def value(self, shape: Shape, what: str) -> str:
        """Generate the decoding of a value; return the variable that has it."""
        target = self.source.variable()
        match shape.kind:
            case "fixed":
                self.read(shape.code, shape.size, target)
            case "struct":
                self.nested(shape, target, what)
            case "array":
                self.array(shape, target, what)
            case _:
                self.sized(shape, target, what)
        return target

    def length(self, shape: Shape, what: str) -> None:
        """Generate the decoding of a length into ``n``.

        In flexible versions ``n`` is the length plus one.
        """
        if self.flexible:
            self.read("B", 1, "n")
            self.flush()
            reader = "read_string_length" if shape.kind == "string" else "read_uvarint"
            self.source.add(f"if n > 127: n, at = {reader}(view, at - 1)")
        else:
            self.read(*_LENGTHS[shape.kind], "n")
            self.flush()

    def presence(self, shape: Shape, target: str, what: str) -> None:
        """Generate the null check; if null is allowed, also open the block for a non-null value."""
        add = self.source.add
        absent = "not n" if self.flexible else "n < 0"
        refuse = f"refuse_null({what!r})" if self.flexible else f"refuse_length({what!r}, n)"
        if not shape.nullable:
            add(f"if {absent}: {refuse}")
            return
        add(f"if {absent}:")
        if not self.flexible:
            add(f"    if n != -1: {refuse}")
        add(f"    {target} = None")
        self.source.open("else:")

    def sized(self, shape: Shape, target: str, what: str) -> None:
        """Generate the decoding of a string, bytes or records."""
        self.length(shape, what)
        self.presence(shape, target, what)
        add = self.source.add
        add("stop = at + n - 1" if self.flexible else "stop = at + n")
        add(f"if stop > end: refuse_end({what!r}, stop, end)")
        taken = {
            "string": "str(view[at:stop], 'utf-8')",
            "bytes": "bytes(view[at:stop])",
            "records": "view[at:stop]",
        }
        add(f"{target} = {taken[shape.kind]}")
        add("at = stop")
        if shape.nullable:
            self.source.close()

    def nested(self, shape: Shape, target: str, what: str) -> None:
        """Generate the decoding of a struct inside a struct, which may be null."""
        assert shape.struct is not None
        if not shape.nullable:
            made = self.struct(shape.struct)
            self.flush()
            self.source.add(f"{target} = {made}")
            return
        self.read("b", 1, "n")
        self.flush()
        self.source.add(f"if n < 0: {target} = None")
        self.source.open("else:")
        made = self.struct(shape.struct)
        self.flush()
        self.source.add(f"{target} = {made}")
        self.source.close()

    def array(self, shape: Shape, target: str, what: str) -> None:
        """Generate the decoding of an array, after a check that its count is possible."""
        assert shape.element is not None
        self.length(shape, what)
        self.presence(shape, target, what)
        add = self.source.add
        if self.flexible:
            add("n -= 1")
        least = least_size(shape.element, self.version, self.flexible)
        add(f"if n * {least} > end - at: refuse_count({what!r}, n, end - at)")
        add("room -= n")
        add(f"if room < 0: refuse_room({what!r})")
        if shape.element.kind == "fixed":
            self.numbers(shape.element, target)
        else:
            self.elements(shape.element, target, what)
        if shape.nullable:
            self.source.close()

    def numbers(self, element: Shape, target: str) -> None:
        """Generate the decoding of an array of fixed-size values."""
        if element.code == "16s":
            self.source.add(f"{target} = read_ids(view, at, n)")
        else:
            self.source.add(f'{target} = unpack_from(f">{{n}}{element.code}", view, at)')
        self.source.add(f"at += n * {element.size}")

    def elements(self, element: Shape, target: str, what: str) -> None:
        """Generate the decoding of an array, element by element."""
        self.source.add(f"{target} = []")
        self.source.open("for _ in range(n):")
        if element.kind == "struct":
            assert element.struct is not None
            made = self.struct(element.struct)
        else:
            made = self.value(element, what)
        self.flush()
        self.source.add(f"{target}.append({made})")
        self.source.close()
        self.source.add(f"{target} = tuple({target})")

    def tags(self, fields: list[Field], values: dict[str, str]) -> None:
        """Generate the decoding of the tagged fields at the end of a struct.

        Unknown tagged fields are skipped.
        """
        known = [field for field in fields if field.shape is not None]
        self.read("B", 1, "n")
        self.flush()
        add = self.source.add
        if not known:
            add("if n: at, room = skip_tags(view, at - 1, room)")
            return
        for field in known:
            values[field.name] = self.source.variable()
            add(f"{values[field.name]} = {self.source.constant(field.default)}")
        tag, stop = self.source.variable(), self.source.variable()
        self.source.open("if n:")
        self.source.open(f"for {tag}, at, {stop} in read_tags(view, at - 1, room):")
        add("room -= 1")
        for field in known:
            assert field.shape is not None
            self.source.open(f"if {tag} == {field.tag}:")
            value = self.value(field.shape, field.name)
            self.flush()
            add(f"{values[field.name]} = {value}")
            add(f"if at != {stop}: refuse_end({field.name!r}, at, {stop})")
            self.source.close()
        add(f"at = {stop}")
        self.source.close()
        self.source.close()


@cache
def least_size(shape: Shape, version: int, flexible: bool) -> int:
    """Return the minimum number of bytes that encode a value."""
    if shape.kind == "fixed":
        return shape.size
    if shape.kind != "struct" or shape.nullable:
        return 1 if flexible or shape.kind == "struct" else _LENGTHS[shape.kind][1]
    assert shape.struct is not None
    return flexible + sum(
        least_size(field.shape, version, flexible)
        for field in layout(shape.struct, version)
        if field.shape is not None and field.tag is None
    )
