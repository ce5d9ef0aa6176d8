"""A thousand endpoints, of which a hundred hang: the others are not delayed."""

import resource
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from tests.heads.webhooks.receiver import receiving
from tests.heads.webhooks.served import SETTINGS, serving, until

ENDPOINTS, HANGING, EVENTS = 1_000, 100, 3


@pytest.fixture(autouse=True)
def enough_descriptors() -> Iterator[None]:
    """Both ends of all connections are in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 16_384), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_hundred_endpoints_that_hang_delay_none_of_the_others() -> None:
    """All events reach the others while every request to the hanging ones is still under way."""
    async with receiving() as healthy, receiving() as slow, serving(SETTINGS) as served:
        over = slow.hold_after(0)
        for number in range(ENDPOINTS):
            receiver = slow if number % (ENDPOINTS // HANGING) == 0 else healthy
            await served.add(
                f"{receiver.url}/{number}",
                name=f"e{number}",
                secret="file:signing",
                timeout_ms=600_000,
            )
        sent = [b"%d" % number for number in range(EVENTS)]
        served.publish(*sent)

        await healthy.got((ENDPOINTS - HANGING) * EVENTS, within_s=120)
        await until(lambda: slow.now == HANGING)

        # Each hanging endpoint holds one request, whatever it might have at a time.
        assert len(slow.came) == slow.most == HANGING
        assert Counter(healthy.bodies()) == dict.fromkeys(sent, ENDPOINTS - HANGING)
        in_flight = ("mainstem_webhooks_requests_in_flight", (), HANGING)
        await until(lambda: in_flight in served.samples())

        over.set()
        await slow.got(HANGING * EVENTS)
        await until(lambda: all(served.unsettled(name=f"webhook.e{it}") == 0 for it in (0, 10)))


async def test_a_hundred_names_that_hang_delay_no_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    over, look_up = threading.Event(), socket.getaddrinfo

    def hanging(host: str, *rest: int) -> list[tuple[Any, ...]]:
        if host.startswith("hangs"):
            over.wait()
        return look_up("127.0.0.1" if host.startswith("works") else host, *rest)

    monkeypatch.setattr(socket, "getaddrinfo", hanging)
    async with receiving() as healthy, serving(SETTINGS) as served:
        for number in range(HANGING):
            await served.add(
                f"http://hangs-{number}.example/", name=f"e{number}", secret="file:signing"
            )
        url = healthy.url.replace("127.0.0.1", "works.example")
        await served.add(url, name="healthy", secret="file:signing")
        served.publish(b"1")

        await healthy.got(1)

        in_flight = ("mainstem_webhooks_requests_in_flight", (), HANGING)
        await until(lambda: in_flight in served.samples())
        over.set()


async def test_an_endpoint_gets_one_request_even_if_others_use_up_the_limit() -> None:
    settings = msgspec.structs.replace(SETTINGS, max_requests=5)
    async with receiving() as healthy, receiving() as slow, serving(settings) as served:
        over = slow.hold_after(10)
        await served.add(slow.url, name="slow", secret="file:signing", max_in_flight=100)
        served.publish(*[b"%d" % number for number in range(30)])
        await slow.until(lambda: slow.now == 5)

        await served.add(healthy.url, name="other", secret="file:signing", from_start=True)

        await healthy.got(30)
        assert healthy.most == 1
        assert slow.now == 5
        over.set()
        await slow.got(30)
        await until(lambda: served.unsettled(name="webhook.slow") == 0)
