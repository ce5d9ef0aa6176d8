"""The table of supported APIs: each module in ``apis`` registers its own with ``serves``."""

from collections.abc import Callable
from functools import wraps
from typing import NamedTuple, TypeVar

from mainstem.auth import Action, Resource
from mainstem.core.errors import MainstemError
from mainstem.heads.kafka.adapter.errors import code_of
from mainstem.heads.kafka.adapter.service import Asked, Reply
from mainstem.kafka_protocol.api import Api
from mainstem.kafka_protocol.fields import Wire

W = TypeVar("W", bound=Wire)
A = TypeVar("A", bound=Callable[..., None])


class Served(NamedTuple):
    """A supported API: its versions, and the function that answers its requests."""

    first: int
    last: int
    answer: Callable[..., None]


SERVED: dict[int, Served] = {}
"""Supported APIs by API key; complete once ``apis`` is imported. ApiVersions returns this table."""


def serves(api: Api, first: int, last: int) -> Callable[[A], A]:
    """Register the decorated function for an API, from version ``first`` to ``last``."""

    def register(answer: A) -> A:
        assert api.key not in SERVED, f"{api.name} is served twice"
        assert api.first <= first <= last <= api.last, f"{api.name} has no such versions"
        SERVED[api.key] = Served(first, last, answer)
        return answer

    return register


def requires(
    action: Action, resource: Resource, refused: Callable[..., Wire]
) -> Callable[[Callable[[Asked, W, Reply], None]], Callable[[Asked, W, Reply], None]]:
    """Check a permission before calling the decorated function, which makes no call that checks it.

    ``refused``: creates the response if the permission is missing.
    """

    def wrap(answer: Callable[[Asked, W, Reply], None]) -> Callable[[Asked, W, Reply], None]:
        @wraps(answer)
        def asking(asked: Asked, request: W, reply: Reply) -> None:
            try:
                asked.service.may(action, resource)
            except MainstemError as error:
                reply(refused(error_code=code_of(error)))
                return
            answer(asked, request, reply)

        return asking

    return wrap
