"""Waits in the event loop: for the durability of an append, and for room in a full topic."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from mainstem.broker.door import Durable, HeldPublish
from mainstem.core.errors import MainstemError

if TYPE_CHECKING:
    from mainstem.heads.context import HeadContext


async def until_durable(context: "HeadContext", durable: Durable) -> None:
    """Wait until an append is as durable as its topic promises; raises the error if it failed."""
    if durable.done:
        durable.wait()
        return
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def decide(error: MainstemError | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error.with_traceback(None))

    durable.then(lambda error: context.on_loop(lambda: decide(error)))
    await done


async def until_room(
    context: "HeadContext", peer: set[Callable[[], None]], held: HeldPublish
) -> HeldPublish:
    """Wait until a full topic has room; return the ``HeldPublish`` for the next attempt.

    ``peer``: calls to make when the client disconnects; the wait adds its own.
    """
    done: asyncio.Future[HeldPublish] = asyncio.get_running_loop().create_future()

    def again(held: HeldPublish) -> None:
        if not done.done():
            done.set_result(held)

    context.when_room(peer, held, again)
    return await done
