"""A response with a result per change, sent when all changes are durable or have failed."""

from collections.abc import Callable
from typing import Generic, TypeVar

from mainstem.broker.door import Durable
from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.service import Service

Result = TypeVar("Result")


class Results(Generic[Result]):
    """The results, in the order of the request."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._results: list[Result] = []
        self._left = 1
        self._reply: Callable[[list[Result]], None] = lambda _: None

    def add(self, result: Result) -> None:
        """Add a result."""
        self._results.append(result)

    def attempt(
        self,
        change: Callable[[], Durable],
        result: Result,
        refused: Callable[[MainstemError], Result],
    ) -> None:
        """Make a change; its result is ``result`` if it succeeds and becomes durable."""
        try:
            durable = change()
        except MainstemError as error:
            self.add(refused(error))
        else:
            self.add_later(durable, result, refused)

    def add_later(
        self, durable: Durable, result: Result, refused: Callable[[MainstemError], Result]
    ) -> None:
        """Add a result that holds once a change is durable; ``refused`` if that fails."""
        at = len(self._results)
        self._results.append(result)
        self._left += 1

        def decide(error: MainstemError | None) -> None:
            if error is not None:
                self._results[at] = refused(error)
            self._one_less()

        if durable.done:
            durable.then(decide)
        else:
            durable.then(lambda error: self._service.on_loop(lambda: decide(error)))

    def then(self, reply: Callable[[list[Result]], None]) -> None:
        """Reply once every result is known."""
        self._reply = reply
        self._one_less()

    def _one_less(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._reply(self._results)
