"""What a table expects of the events that it reads, and what happens to those that fail it."""

from collections.abc import Callable
from typing import Literal, TypeVar

import msgspec

from mainstem.pipelines.errors import InvalidDefinition

F = TypeVar("F", bound=Callable[..., object])
OnFail = Literal["dead", "drop", "stop"]
_ATTRIBUTE = "__mainstem_expectations__"


class Expectation(msgspec.Struct, frozen=True):
    """An SQL condition on the rows of a source; also a decorator for a table's function."""

    condition: str
    on_fail: OnFail
    name: str

    def __call__(self, query: F) -> F:
        """Add this expectation to a table's function; the decorator stands below ``@p.table``."""
        if not callable(query) or isinstance(query, msgspec.Struct):
            raise InvalidDefinition(
                f"@p.expect({self.condition!r}) belongs below @p.table, on the function"
            )
        setattr(query, _ATTRIBUTE, (self, *expectations_of(query)))
        return query


def expect(
    condition: str, *, on_fail: Literal["dead", "drop", "stop"] = "dead", name: str = ""
) -> Expectation:
    """Expect that an SQL condition holds for every row of the table's source.

    If it is false or null for a row, its event becomes a dead letter (``dead``), is left out
    (``drop``), or stops the table (``stop``). Events that fail it are counted under ``name``
    (default: the condition).
    """
    if on_fail not in ("dead", "drop", "stop"):
        raise InvalidDefinition(
            f"p.expect({condition!r}): on_fail={on_fail!r} is unknown; use dead, drop or stop"
        )
    if not condition.strip():
        raise InvalidDefinition("p.expect needs a condition in SQL, such as 'amount >= 0'")
    return Expectation(condition, on_fail, name or condition)


def expectations_of(query: object) -> tuple[Expectation, ...]:
    """Return the expectations with which a table's function is decorated."""
    found: tuple[Expectation, ...] = getattr(query, _ATTRIBUTE, ())
    return found
