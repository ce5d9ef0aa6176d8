"""The types of a node's numeric settings, with their bounds.

A setting is a field ``name: Annotated[TYPE, "A sentence about it."] = default``; a bound that only
one setting has stands beside its type, as a ``Meta``.
"""

from typing import Annotated

from msgspec import Meta

KIB = 1024
MIB = 1024 * KIB

PositiveInt = Annotated[int, Meta(ge=1)]
NonNegativeInt = Annotated[int, Meta(ge=0)]
Bytes = Annotated[int, Meta(ge=KIB)]
MessageBytes = Annotated[int, Meta(ge=KIB, le=2**31 - 1)]
"""The size of a message whose protocol counts its bytes in a signed 32-bit number."""
IntervalMs = Annotated[int, Meta(ge=10)]
"""Milliseconds that a timer of the node waits."""
