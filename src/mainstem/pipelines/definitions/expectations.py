"""What a table expects of the events that it reads, and what becomes of those that do not fit."""

from collections.abc import Callable
from typing import Literal, TypeVar

import msgspec

from mainstem.pipelines.errors import InvalidDefinition

F = TypeVar("F", bound=Callable[..., object])
OnFail = Literal["dead", "drop", "stop"]
_ATTRIBUTE = "__mainstem_expectations__"


class Expectation(msgspec.Struct, frozen=True):
    """A condition in SQL on the rows of a source; a decorator for the function of a table."""

    condition: str
    on_fail: OnFail
    name: str

    def __call__(self, query: F) -> F:
        """Add the expectation to a table's function, below ``@p.table``."""
        if not callable(query) or isinstance(query, msgspec.Struct):
            raise InvalidDefinition(
                f"@p.expect({self.condition!r}) belongs below @p.table, on the function"
            )
        setattr(query, _ATTRIBUTE, (self, *expectations_of(query)))
        return query


def expect(
    condition: str, *, on_fail: Literal["dead", "drop", "stop"] = "dead", name: str = ""
) -> Expectation:
    """Expect that a condition in SQL holds for every row of the table's source.

    If it does not, or is null, the event becomes a dead letter (``dead``), is left out (``drop``),
    or stops the table (``stop``). All are counted by ``name`` (default: the condition).
    """
    if on_fail not in ("dead", "drop", "stop"):
        raise InvalidDefinition(
            f"p.expect({condition!r}): on_fail={on_fail!r} is unknown; use dead, drop or stop"
        )
    if not condition.strip():
        raise InvalidDefinition("p.expect needs a condition in SQL, such as 'amount >= 0'")
    return Expectation(condition, on_fail, name or condition)


def expectations_of(query: object) -> tuple[Expectation, ...]:
    """Return the expectations that decorate a function."""
    found: tuple[Expectation, ...] = getattr(query, _ATTRIBUTE, ())
    return found
