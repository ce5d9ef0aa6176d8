"""What Kafka clients asked for, and what they were refused: counted as it is answered."""

from collections.abc import Callable
from functools import cache

from mainstem.heads.kafka.fields import Shape, Wire, layout
from mainstem.heads.kafka.messages import APIS

_Find = Callable[[Wire, list[int]], None]


class Counts:
    """Counts of the head since it was started; changed by the event loop only."""

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
        """By API key."""
        self.errors: dict[tuple[int, int], int] = {}
        """By API key and error code."""
        self.produced_batches = 0
        self.produced_events = 0
        self.produced_bytes = 0
        self.fetched_bytes = 0

    def answered(self, api_key: int, version: int, body: Wire) -> None:
        """Count the errors in an answer, however deep they are."""
        find = _finder(type(body), version)
        if find is None:
            return
        found: list[int] = []
        find(body, found)
        for code in found:
            place = (api_key, int(code))
            self.errors[place] = self.errors.get(place, 0) + 1


@cache
def _finder(struct: type[Wire], version: int) -> _Find | None:
    """Return what collects the error codes of a message; None if it has none in this version."""
    fields = [field for field in layout(struct, version) if field.shape is not None]
    has_own = any(field.name == "error_code" for field in fields)
    inner = [
        (field.name, find)
        for field in fields
        if (element := _element(field.shape)) is not None
        and (find := _finder(element, version)) is not None
    ]
    if not has_own and not inner:
        return None

    def find_all(message: Wire, found: list[int]) -> None:
        if has_own and (code := message.error_code):  # type: ignore[attr-defined]
            found.append(code)
        for name, find in inner:
            for each in getattr(message, name) or ():
                find(each, found)

    return find_all


def _element(shape: Shape | None) -> type[Wire] | None:
    """Return the struct that an array is of."""
    return shape.element.struct if shape is not None and shape.element is not None else None
