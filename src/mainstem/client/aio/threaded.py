"""Async versions of blocking objects, whose calls run in a thread."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import wraps
from operator import methodcaller
from typing import Concatenate, Generic, ParamSpec, Protocol, TypeVar

B = TypeVar("B")
B_co = TypeVar("B_co", covariant=True)
P = ParamSpec("P")
R = TypeVar("R")


class CallsInThread(Protocol[B_co]):
    """Protocol of an async object that runs methods of a blocking object in a thread."""

    def _call(self, call: Callable[[B_co], R]) -> Awaitable[R]: ...


def in_thread(
    method: Callable[Concatenate[B, P], R],
) -> Callable[Concatenate[CallsInThread[B], P], Coroutine[object, object, R]]:
    """Return an async version of a blocking method, with its signature and docstring.

    It is a method for classes that implement ``CallsInThread``.
    """

    @wraps(method)
    async def call(self: CallsInThread[B], /, *args: P.args, **named: P.kwargs) -> R:
        made: Callable[[B], R] = methodcaller(method.__name__, *args, **named)
        return await self._call(made)

    return call


class Threaded(Generic[B]):
    """Base class: the async version of a blocking object that is thread-safe."""

    __slots__ = ("_blocking",)

    def __init__(self, blocking: B) -> None:
        self._blocking = blocking

    def _call(self, call: Callable[[B], R]) -> Awaitable[R]:
        return asyncio.to_thread(call, self._blocking)
