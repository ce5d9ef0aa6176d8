"""Peers without permission for a page of the admin port get HTTP errors."""

from base64 import b64encode

import pytest
from tests.heads.admin.web import get, pages_served

from mainstem.auth import (
    ANONYMOUS,
    Action,
    Auth,
    Credentials,
    Peer,
    Principal,
    Resource,
    ResourceKind,
    deny_all,
)
from mainstem.core.errors import Failure, MainstemError, Unauthenticated
from mainstem.heads.web.problem import STATUSES

EVENTS = "/queues/events?topic=orders&queue=emails"


def login(user: str, secret: str = "right") -> dict[str, str]:
    return {"Authorization": "Basic " + b64encode(f"{user}:{secret}".encode()).decode()}


def authenticate(mechanism: str, credentials: Credentials, peer: Peer) -> Principal:
    if (mechanism, credentials.secret) != ("PLAIN", b"right"):
        raise Unauthenticated(peer.address, "the password is wrong")
    return Principal(credentials.user)


def operators_only(principal: Principal, action: Action, resource: Resource) -> None:
    if principal is ANONYMOUS:
        raise Unauthenticated("the peer", "it must")
    if principal.name != "ops":
        deny_all(principal, action, resource)


@pytest.mark.parametrize("path", ["/metrics", "/queues", EVENTS, "/connections"])
def test_who_may_not_see_a_page_gets_403_and_why(path: str) -> None:
    with pages_served(auth=Auth(authorize=deny_all)) as address:
        page = get(address, path)

    assert page.status == 403
    assert "'ANONYMOUS' may not" in page.text


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/"])
def test_everybody_may_ask_whether_the_server_is_there(path: str) -> None:
    with pages_served(auth=Auth(authorize=deny_all)) as address:
        assert get(address, path).status == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        (login("ops", "wrong"), 401),
        ({"Authorization": "Bearer x"}, 401),
        ({"Authorization": "Basic ###"}, 401),
        ({"Authorization": "Basic " + b64encode(b"no colon").decode()}, 401),
        (login("ann"), 403),
        (login("ops"), 200),
    ],
)
def test_who_has_to_log_in_is_told_how(headers: dict[str, str], status: int) -> None:
    auth = Auth(authorize=operators_only, authenticate=authenticate)
    with pages_served(metrics=lambda: "a 1\n", auth=auth) as address:
        page = get(address, "/metrics", headers=headers)

    assert page.status == status
    assert ("www-authenticate" in page.headers) == (status == 401)


def test_the_events_of_a_queue_need_the_right_to_read_both_queue_and_topic() -> None:
    asked: list[tuple[Action, Resource]] = []

    def authorize(_: Principal, action: Action, resource: Resource) -> None:
        asked.append((action, resource))

    with pages_served(auth=Auth(authorize=authorize)) as address:
        assert get(address, EVENTS).status == 200
        assert get(address, "/queues/events?topic=orders").status == 400

    assert asked == [
        (Action.READ, Resource(ResourceKind.TOPIC, "orders")),
        (Action.READ, Resource(ResourceKind.GROUP, "emails")),
        (Action.READ, Resource(ResourceKind.TOPIC, "orders")),
    ]


@pytest.mark.parametrize("failure", Failure)
def test_whatever_goes_wrong_when_a_right_is_asked_for_has_a_status(failure: Failure) -> None:
    def authorize(_principal: Principal, _action: Action, _resource: Resource) -> None:
        raise type("Made", (MainstemError,), {"failure": failure})("made by a test")

    with pages_served(auth=Auth(authorize=authorize)) as address:
        page = get(address, "/metrics")

    assert page.status == STATUSES[failure]
    assert page.text == "made by a test\n"
