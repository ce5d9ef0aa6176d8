"""Resolves the names of endpoints, so that a name server that hangs delays no other name.

How this works: each name is looked up in a thread of its own, as ``getaddrinfo`` blocks and cannot
be stopped; requests that need the same name meanwhile share the lookup. When a request times out,
its lookup continues in the thread. The threads are daemons, so they do not delay the end of the
process. Nothing is cached: the address of each connection is checked when its socket is made.
"""

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

MAX_LOOKUPS = 2_000
"""Maximum number of lookups at a time; each has a thread."""

_Name = tuple[str, int, socket.AddressFamily]
_Found = list[tuple[Any, ...]]
LookUp = Callable[[str, int, int, int], _Found]


class Resolver(AbstractResolver):
    """Resolves names for aiohttp; only the event loop may call it."""

    def __init__(self, look_up: LookUp | None = None) -> None:
        """``look_up``: called instead of the system's resolver."""
        self._look_up = look_up
        self._lookups: dict[_Name, asyncio.Future[_Found]] = {}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the addresses of a host name; raises OSError."""
        name = (host, port, family)
        lookup = self._lookups.get(name) or self._begin(name)
        # A request that is cancelled must not cancel the lookup for others.
        found = await asyncio.shield(lookup)
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=int(address[1]),
                family=kind,
                proto=protocol,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for kind, _, protocol, _, address in found
        ]

    async def close(self) -> None:
        """Cancel all lookups; threads that hang are left to end by themselves."""
        for lookup in self._lookups.values():
            lookup.cancel()
        self._lookups.clear()

    def _begin(self, name: _Name) -> "asyncio.Future[_Found]":
        if len(self._lookups) >= MAX_LOOKUPS:
            raise OSError(f"{MAX_LOOKUPS} names are being looked up; the name server hangs")
        loop = asyncio.get_running_loop()
        lookup = self._lookups[name] = loop.create_future()

        def end(found: _Found, error: BaseException | None) -> None:
            if self._lookups.get(name) is lookup:
                del self._lookups[name]
            if lookup.done():
                return
            if error is None:
                lookup.set_result(found)
            else:
                lookup.set_exception(error)
                lookup.exception()  # Perhaps nobody waits any more.

        def run() -> None:
            host, port, family = name
            found: _Found = []
            failed: Exception | None = None
            try:
                look_up = self._look_up or socket.getaddrinfo
                found = look_up(host, port, family, socket.SOCK_STREAM)
            except Exception as error:
                failed = error
            try:
                loop.call_soon_threadsafe(end, found, failed)
            except RuntimeError:
                return  # The loop is closed.

        threading.Thread(target=run, name="webhooks-resolver", daemon=True).start()
        return lookup
