"""Operations that heads and the node offer on the admin port, by name.

How this works: an operation has a name such as ``exchanges/bind``, an argument type, and a
function. The function checks the peer's permissions, waits until its changes are durable, and
returns a value that can be encoded as JSON. It is called in a thread, never in the event loop's
(``HeadContext.from_thread`` runs code in the loop). It knows nothing of HTTP, and the admin head
knows operations only by name.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, TypeVar

import msgspec

from mainstem.auth import Peer
from mainstem.core.errors import Failure, InvalidSetting, MainstemError

Arguments = TypeVar("Arguments", bound=msgspec.Struct)


class Run(Protocol):
    """The function of an operation."""

    def __call__(self, peer: Peer, given: Mapping[str, object], *, text: bool) -> object:
        """Run the operation for a peer and return its answer.

        ``given``: the arguments by name. ``text``: their values are text, even those of numbers.
        """


class Operation(msgspec.Struct, frozen=True):
    """An operation: its argument type and its function."""

    name: str
    changes: bool
    """Whether the operation may change something."""
    run: Run


class OperationFailed(MainstemError):
    """An operation was refused; for reasons that have no error class of their own."""

    def __init__(self, failure: Failure, why: str) -> None:
        super().__init__(why)
        self.failure = failure  # type: ignore[misc]  # each has its own


class Administration:
    """The operations of all heads; changed in the event loop, read from any thread."""

    def __init__(self) -> None:
        self._operations: dict[str, Operation] = {}

    def offer(
        self,
        name: str,
        arguments: type[Arguments],
        call: Callable[[Peer, Arguments], object],
        *,
        changes: bool,
    ) -> None:
        """Register an operation, in place of an earlier one of the same name."""

        def run(peer: Peer, given: Mapping[str, object], *, text: bool) -> object:
            try:
                converted = msgspec.convert(given, arguments, strict=not text)
            except msgspec.ValidationError as error:
                raise InvalidSetting(f"{name} cannot be called like this: {error}") from None
            return call(peer, converted)

        self._operations[name] = Operation(name, changes, run)

    def find(self, name: str) -> Operation | None:
        """Return the operation of this name, None if it is not registered."""
        return self._operations.get(name)

    def __iter__(self) -> Iterator[Operation]:
        return iter(sorted(self._operations.values(), key=lambda each: each.name))
