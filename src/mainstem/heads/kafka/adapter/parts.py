"""An answer of several parts, each about a change of its own: given when all are decided."""

from collections.abc import Callable
from typing import Generic, TypeVar

from mainstem.broker.door import Durable
from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.service import Service

Part = TypeVar("Part")


class Parts(Generic[Part]):
    """The parts, in the order in which they were asked for."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._parts: list[Part] = []
        self._left = 1
        self._reply: Callable[[list[Part]], None] = lambda _: None

    def add(self, part: Part) -> None:
        """Take in a part that is known."""
        self._parts.append(part)

    def attempt(
        self,
        change: Callable[[], Durable],
        part: Part,
        refused: Callable[[MainstemError], Part],
    ) -> None:
        """Make a change; take in ``part`` if it can be made and becomes durable."""
        try:
            durable = change()
        except MainstemError as error:
            self.add(refused(error))
        else:
            self.add_later(durable, part, refused)

    def add_later(
        self, durable: Durable, part: Part, refused: Callable[[MainstemError], Part]
    ) -> None:
        """Take in a part that is true once a change is durable; ``refused`` if it never will be."""
        at = len(self._parts)
        self._parts.append(part)
        self._left += 1

        def decide(error: MainstemError | None) -> None:
            if error is not None:
                self._parts[at] = refused(error)
            self._one_less()

        if durable.done:
            durable.then(decide)
        else:
            durable.then(lambda error: self._service.on_loop(lambda: decide(error)))

    def then(self, reply: Callable[[list[Part]], None]) -> None:
        """Answer once every part is decided."""
        self._reply = reply
        self._one_less()

    def _one_less(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._reply(self._parts)
