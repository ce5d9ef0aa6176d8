"""Counters of the requests of Kafka clients and of the error codes in responses."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import cast

from mainstem.kafka_protocol.apis import APIS
from mainstem.kafka_protocol.code_writer import Source
from mainstem.kafka_protocol.fields import Shape, Wire, layout

_Find = Callable[[Wire], Sequence[int]]


class Counts:
    """Counters of the Kafka head since it started; changed by the event loop only."""

    __slots__ = (
        "errors",
        "fetched_bytes",
        "produced_batches",
        "produced_bytes",
        "produced_events",
        "requests",
    )

    def __init__(self) -> None:
        self.requests = [0] * (max(APIS) + 1)
        """Number of requests, by API key."""
        self.errors: dict[tuple[int, int], int] = {}
        """Number of responses with an error, by API key and error code."""
        self.produced_batches = 0
        self.produced_events = 0
        self.produced_bytes = 0
        self.fetched_bytes = 0

    def answered(self, api_key: int, version: int, body: Wire) -> None:
        """Count all error codes in a response, also those of its topics and partitions."""
        for code in _finder(type(body), version)(body):
            place = (api_key, int(code))
            self.errors[place] = self.errors.get(place, 0) + 1


@cache
def _finder(struct: type[Wire], version: int) -> _Find:
    """Return a function that returns all error codes in a message.

    Its code is generated, because it runs for every response and must be fast.
    """
    source = Source({})
    source.add("found = []")
    if not _search(source, struct, version, "message"):
        return _nothing
    source.add("return found")
    return cast(_Find, source.compile("find_errors", "message"))


def _search(source: Source, struct: type[Wire], version: int, variable: str) -> bool:
    """Generate code that collects a struct's error codes; return whether it can have any."""
    fields = [field for field in layout(struct, version) if field.shape is not None]
    found = False
    for field in fields:
        if field.name == "error_code":
            found = True
            source.add(f"if {variable}.error_code: found.append({variable}.error_code)")
        element = _element(field.shape)
        if element is not None and _has_errors(element, version):
            found = True
            each = source.variable()
            source.open(f"for {each} in {variable}.{field.name} or ():")
            _search(source, element, version, each)
            source.close()
    return found


@cache
def _has_errors(struct: type[Wire], version: int) -> bool:
    return _search(Source({}), struct, version, "message")


def _element(shape: Shape | None) -> type[Wire] | None:
    """Return the type of an array field's elements, None if they are not structs."""
    return shape.element.struct if shape is not None and shape.element is not None else None


def _nothing(message: Wire) -> Sequence[int]:
    return ()
