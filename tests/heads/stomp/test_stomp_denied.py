"""STOMP clients without a login or a permission get an ERROR."""

import pytest
from tests.heads.stomp.stomp_client import Client, World

from mainstem import auth
from mainstem.core.errors import Unauthenticated


def only_ann(mechanism: str, credentials: auth.Credentials, peer: auth.Peer) -> auth.Principal:
    """Know one user with a password."""
    if (mechanism, credentials.user, credentials.secret) != ("PLAIN", "ann", b"secret"):
        raise Unauthenticated(peer.address, f"{credentials.user!r} is not known")
    return auth.Principal("ann")


@pytest.mark.parametrize("said", [{}, {"login": "ann"}, {"login": "bob", "passcode": "secret"}])
async def test_who_cannot_log_in_is_told_and_cut_off(said: dict[str, str]) -> None:
    client = Client(World(auth=auth.Auth(authenticate=only_ann)))

    (error,) = await client.asks("CONNECT", accept_version="1.2", host="/", **said)

    assert (error.command, error.headers["message"]) == ("ERROR", "Bad CONNECT")
    assert b"secret" not in error.body
    assert client.box.ended


@pytest.mark.parametrize(
    ("command", "headers"),
    [
        ("SEND", {"destination": "/queue/orders"}),
        ("SEND", {"destination": "/topic/orders"}),
        ("SEND", {"destination": "/queue/orders", "reply_to": "/temp-queue/mine"}),
        ("SUBSCRIBE", {"id": "s", "destination": "/queue/orders"}),
        ("SUBSCRIBE", {"id": "s", "destination": "/topic/orders"}),
        ("SUBSCRIBE", {"id": "s", "destination": "/topic/orders", "durable": "true"}),
        ("SUBSCRIBE", {"id": "s", "destination": "/temp-queue/mine"}),
    ],
)
@pytest.mark.parametrize("exists", [True, False])
async def test_who_may_do_nothing_is_refused_everything(
    command: str, headers: dict[str, str], *, exists: bool
) -> None:
    world = World(auth=auth.Auth(authorize=auth.deny_all))
    if exists:
        world.broker.create_topic("orders")
        world.broker.queues.create("orders", "orders")
    client = await world.client(login="ann", passcode="secret")

    (error,) = await client.asks(command, **headers)

    assert (error.command, error.headers["message"]) == ("ERROR", "access_refused")
    assert "ann" in error.body.decode()
    assert [topic.name for topic in world.broker.topics()] == (["orders"] if exists else [])


async def test_rights_are_those_of_who_has_logged_in() -> None:
    def authorize(principal: auth.Principal, action: auth.Action, resource: auth.Resource) -> None:
        if principal.name != "ann" or (action, resource.kind) == (
            auth.Action.READ,
            auth.ResourceKind.TOPIC,
        ):
            auth.deny_all(principal, action, resource)

    world = World(auth=auth.Auth(authorize=authorize, authenticate=only_ann))
    client = await world.client(login="ann", passcode="secret")

    (receipt,) = await client.asks("SEND", b"x", destination="/topic/orders", receipt="r")
    (error,) = await client.asks("SUBSCRIBE", id="s", destination="/topic/orders")

    assert receipt.headers["receipt-id"] == "r"
    assert error.headers["message"] == "access_refused"


async def test_a_transaction_with_a_part_that_is_denied_does_nothing() -> None:
    def authorize(principal: auth.Principal, action: auth.Action, resource: auth.Resource) -> None:
        if action is auth.Action.WRITE and resource.name == "secret":
            auth.deny_all(principal, action, resource)

    world = World(auth=auth.Auth(authorize=authorize))
    client = await world.client()
    client.say("BEGIN", transaction="t")
    client.say("SEND", b"1", destination="/topic/open", transaction="t")
    client.say("SEND", b"2", destination="/topic/secret", transaction="t")

    (error,) = await client.asks("COMMIT", transaction="t")

    assert error.headers["message"] == "access_refused"
    assert world.broker.bounds("open", 0).tail == 0
