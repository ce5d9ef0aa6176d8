"""Names of endpoints are looked up so that a name server that hangs delays no other name."""

import asyncio
import socket
import threading
from typing import Any

import pytest

from mainstem.heads.webhooks.resolver import MAX_LOOKUPS, Resolver

ADDRESS = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 443))


class NameServer:
    """Answers lookups, except of names that begin with "hangs", until it is told to go on."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.go_on = threading.Event()

    def look_up(self, host: str, port: int, family: int, kind: int) -> list[tuple[Any, ...]]:
        self.asked.append(host)
        if host.startswith("hangs"):
            self.go_on.wait()
        if host.endswith("unknown"):
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [ADDRESS]


async def test_names_that_hang_delay_no_other() -> None:
    names = NameServer()
    resolver = Resolver(names.look_up)
    hanging = [asyncio.create_task(resolver.resolve(f"hangs-{it}", 443)) for it in range(200)]

    (found,) = await resolver.resolve("shop.example", 443)

    assert (found["host"], found["port"], found["hostname"]) == ("192.0.2.1", 443, "shop.example")
    assert not any(each.done() for each in hanging)
    names.go_on.set()
    assert len(await asyncio.gather(*hanging)) == 200


async def test_requests_for_one_name_share_a_lookup_that_outlives_those_that_give_up() -> None:
    names = NameServer()
    resolver = Resolver(names.look_up)
    first, second = (asyncio.create_task(resolver.resolve("hangs", 443)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first

    names.go_on.set()
    (found,) = await second

    assert found["host"] == "192.0.2.1"
    assert names.asked == ["hangs"]
    await resolver.resolve("hangs", 443)
    assert names.asked == ["hangs", "hangs"], "nothing is cached"


async def test_an_unknown_name_is_an_error_for_all_who_wait() -> None:
    resolver = Resolver(NameServer().look_up)

    found = await asyncio.gather(
        *(resolver.resolve("unknown", 443) for _ in range(3)), return_exceptions=True
    )

    assert [type(each) for each in found] == [socket.gaierror] * 3


async def test_lookups_that_hang_are_limited_and_closing_waits_for_none() -> None:
    names = NameServer()
    resolver = Resolver(names.look_up)
    hanging = [
        asyncio.create_task(resolver.resolve(f"hangs-{it}", 443)) for it in range(MAX_LOOKUPS)
    ]
    await asyncio.sleep(0)

    with pytest.raises(OSError, match="name server hangs"):
        await resolver.resolve("shop.example", 443)
    await resolver.close()
    ended = await asyncio.gather(*hanging, return_exceptions=True)
    names.go_on.set()

    assert all(isinstance(each, asyncio.CancelledError) for each in ended)
