"""Sends, and what STOMP clients of a head in memory were sent."""

from tests.heads.stomp.stomp_client import Client, World

from mainstem.core.event import Event
from mainstem.heads.stomp.codec import Frame


def only(frames: list[Frame], command: str) -> Frame:
    (found,) = frames
    assert found.command == command, found
    return found


def bodies(frames: list[Frame]) -> list[str]:
    return [each.body.decode() for each in frames if each.command == "MESSAGE"]


def message_ids(frames: list[Frame]) -> list[str]:
    return [each.headers["message-id"] for each in frames if each.command == "MESSAGE"]


def published(world: World, topic: str) -> list[Event]:
    return world.broker.follow(topic, 0, 0).take()


def out(world: World, queue: str) -> int:
    """Return how many events of a queue are with clients."""
    return sum(world.broker.queues.show(queue, queue).owners.values())


def unsettled(world: World, queue: str) -> int:
    return sum(each.unsettled for each in world.broker.queues.show(queue, queue).windows)


async def delivered(world: World, client: Client, queue: str, ack: str = "client") -> Frame:
    """Subscribe to a queue, and return the message of the only event in it."""
    await client.asks("SUBSCRIBE", id="s", destination=f"/queue/{queue}", ack=ack)
    world.broker.publish(queue, [Event(b"1")])
    return only(await client.rest(), "MESSAGE")


async def prefetch(client: Client, destination: str, count: int) -> None:
    """Subscribe, with so many messages unsettled at most."""
    headers = {"destination": destination, "prefetch_count": str(count)}
    await client.asks("SUBSCRIBE", id="s", ack="client", **headers)


async def send(client: Client, destination: str, *values: str) -> None:
    for value in values:
        receipt = only(
            await client.asks("SEND", value.encode(), destination=destination, receipt="r"),
            "RECEIPT",
        )
        assert receipt.headers["receipt-id"] == "r"
