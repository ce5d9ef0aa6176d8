"""Operations that heads and the node register with the admin port, by name.

How this works: an operation has a name such as ``exchanges/bind``, an argument type, an answer
type, and a function. The function checks the peer's permissions, waits until its changes are
durable, and returns a value that can be encoded as JSON. It is called in a thread, never in the
event loop (``HeadContext.from_thread`` runs code in the loop). The function does not depend on
HTTP, and the admin head knows operations only by name. From an operation's ``route``, the admin
head makes a path of the API, its JSON schema and its documentation.

Most operations are methods with the decorator ``operation``, which ``offer_all`` registers.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, TypeVar, get_type_hints

import msgspec

from mainstem.auth import Peer
from mainstem.core.errors import Failure, InvalidSetting, MainstemError

Arguments = TypeVar("Arguments", bound=msgspec.Struct)
Method = TypeVar("Method", bound=Callable[..., object])
_MARK = "operation"


class Run(Protocol):
    """The function of an operation."""

    def __call__(self, peer: Peer, given: Mapping[str, object], *, text: bool) -> object:
        """Run the operation for a peer and return its answer.

        ``given``: the arguments by name. ``text``: whether all values are text, as in a query, and
        must be converted.
        """


class Operation(msgspec.Struct, frozen=True):
    """A registered operation: its argument type, its function, and its path."""

    name: str
    changes: bool
    """Whether the operation may change something."""
    run: Run
    arguments: type[msgspec.Struct]
    answer: object
    """The type of the answer; None if there is none."""
    summary: str
    """What the operation does, in one sentence."""
    method: str
    path: tuple[str, ...]
    """The segments of the operation's path in the API; ``{topic}`` stands for the argument
    ``topic``.
    """

    @property
    def path_arguments(self) -> frozenset[str]:
        """The names of the arguments that are segments of the path."""
        return frozenset(each[1:-1] for each in self.path if each.startswith("{"))


class OperationFailed(MainstemError):
    """Refuses an operation for a reason that has no error class of its own."""

    def __init__(self, failure: Failure, why: str) -> None:
        super().__init__(why)
        self.failure = failure  # type: ignore[misc]  # each has its own


class NoArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arguments of an operation that takes none."""


class _Mark(msgspec.Struct, frozen=True):
    """What the decorator ``operation`` records about a method."""

    name: str
    route: str
    changes: bool
    answer: object | None


def operation(
    name: str, route: str = "", *, changes: bool | None = None, answer: object | None = None
) -> Callable[[Method], Method]:
    """Make a method an operation; its annotations and docstring describe it in the API.

    ``route``: as in ``Administration.offer``. ``changes``: whether it may change something; None:
    if the route is not a GET. ``answer``: the answer's type, if the annotation does not have it.
    """
    changing = not route.startswith("GET ") if changes is None else changes

    def mark(method: Method) -> Method:
        method.__dict__[_MARK] = _Mark(name, route, changing, answer)
        return method

    return mark


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
        route: str = "",
        answer: object = object,
        summary: str = "",
    ) -> None:
        """Register an operation; it replaces an earlier one of the same name.

        ``route``: its method and path in the API, such as ``DELETE topics/{topic}``; if empty, its
        name, with POST or GET. ``summary``: if empty, the first line of the argument type's
        docstring.
        """

        def run(peer: Peer, given: Mapping[str, object], *, text: bool) -> object:
            try:
                converted = msgspec.convert(given, arguments, strict=not text)
            except msgspec.ValidationError as error:
                raise InvalidSetting(f"{name} cannot be called like this: {error}") from None
            return call(peer, converted)

        method, _, path = (route or f"{'POST' if changes else 'GET'} {name}").partition(" ")
        said = summary or (arguments.__doc__ or name).strip().partition("\n")[0]
        segments = tuple(path.split("/"))
        self._operations[name] = Operation(
            name, changes, run, arguments, answer, said, method, segments
        )

    def offer_all(self, operations: object) -> None:
        """Register the methods of an object that have the decorator ``operation``."""
        for attribute, method in vars(type(operations)).items():
            mark = getattr(method, "__dict__", {}).get(_MARK)
            if mark is None:
                continue
            # The peer, the arguments and the answer, in this order.
            _, arguments, answer = get_type_hints(method).values()
            self.offer(
                mark.name,
                arguments,
                getattr(operations, attribute),
                changes=mark.changes,
                route=mark.route,
                answer=mark.answer or (None if answer is type(None) else answer),
                summary=(method.__doc__ or mark.name).partition("\n")[0],
            )

    def find(self, name: str) -> Operation | None:
        """Return the operation of this name, None if it is not registered."""
        return self._operations.get(name)

    def at(self, path: tuple[str, ...]) -> list[tuple[Operation, dict[str, str]]]:
        """Return the operations with this path in the API, and the arguments in the path."""
        found = [
            (each, arguments)
            for each in self._operations.copy().values()
            if (arguments := arguments_in(each.path, path)) is not None
        ]
        # A path with fewer arguments wins: ``queues/purge`` over ``queues/{topic}``.
        fewest = min((len(arguments) for _, arguments in found), default=0)
        return [each for each in found if len(each[1]) == fewest]

    def __iter__(self) -> Iterator[Operation]:
        return iter(sorted(self._operations.copy().values(), key=lambda each: each.name))


def arguments_in(template: tuple[str, ...], path: tuple[str, ...]) -> dict[str, str] | None:
    """Return the segments that ``{name}`` stands for, by name; None if the path does not match."""
    if len(template) != len(path):
        return None
    found: dict[str, str] = {}
    for wanted, given in zip(template, path, strict=True):
        if wanted.startswith("{"):
            found[wanted[1:-1]] = given
        elif wanted != given:
            return None
    return found
