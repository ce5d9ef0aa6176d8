"""The data types of the Kafka protocol, used as annotations of message fields."""

from collections.abc import Sequence
from typing import Annotated, TypeVar

import msgspec

from mainstem.core.wire import Piece

T = TypeVar("T")


class Fixed(msgspec.Struct, frozen=True):
    """Annotation: a type of fixed size, with its format letter in the struct module."""

    code: str
    size: int


class Sized(msgspec.Struct, frozen=True):
    """Annotation: a type encoded as a length, followed by that many bytes or elements."""

    kind: str


Int8 = Annotated[int, Fixed("b", 1)]
Int16 = Annotated[int, Fixed("h", 2)]
Int32 = Annotated[int, Fixed("i", 4)]
Int64 = Annotated[int, Fixed("q", 8)]
UInt16 = Annotated[int, Fixed("H", 2)]
UInt32 = Annotated[int, Fixed("I", 4)]
Float64 = Annotated[float, Fixed("d", 8)]
Bool = Annotated[bool, Fixed("?", 1)]
Uuid = Annotated[bytes, Fixed("16s", 16)]
String = Annotated[str, Sized("string")]
Bytes = Annotated[bytes, Sized("bytes")]
"""Bytes that are copied when decoded, so that they do not keep the frame in memory."""
Records = Annotated[Piece, Sized("records")]
"""Records: a memoryview of the frame when decoded; sent unchanged when encoded."""
Array = Annotated[Sequence[T], Sized("array")]
"""An array: a tuple when decoded; any sequence when encoded."""
