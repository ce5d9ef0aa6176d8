"""Which topics a session of a share group keeps in mind."""

import os

import pytest
from tests.broker.queues.queue_consumers import Desk

from mainstem.heads.kafka.adapter.share.share_sessions import (
    SessionPartition,
    ShareSession,
    ShareSessions,
)

ORDERS = b"o" * 16
OWNER = "ann"


@pytest.fixture
def desk() -> Desk:
    found = Desk()
    found.publish(b"1")
    return found


@pytest.fixture
def sessions(desk: Desk) -> ShareSessions:
    return ShareSessions(desk.queues, {ORDERS: "orders"}.get, lambda: False)


def opened(sessions: ShareSessions) -> ShareSession:
    found = sessions.open("emails", OWNER, [(ORDERS, 0)], set())
    assert isinstance(found, ShareSession)
    return found


def resumed(
    sessions: ShareSessions,
    added: list[SessionPartition],
    forgotten: list[SessionPartition],
    epoch: int = 1,
) -> ShareSession:
    found = sessions.resume("emails", OWNER, epoch, set(), added, forgotten)
    assert isinstance(found, ShareSession)
    return found


def test_topics_that_are_named_and_forgotten_are_not_kept(sessions: ShareSessions) -> None:
    sessions.open("emails", OWNER, [(ORDERS, 0)], set())
    strange = [(os.urandom(16), 0) for _ in range(100)]

    session = resumed(sessions, strange, [])
    assert len(session.topics()) == 101
    session = resumed(sessions, [], [*strange, (ORDERS, 0)], epoch=2)

    assert session.topics() == set()


def test_a_topic_is_kept_as_long_as_something_of_it_is_out(
    desk: Desk, sessions: ShareSessions
) -> None:
    session = opened(sessions)
    (delivery,) = desk.acquire(owner=OWNER)
    session.lent.add(ORDERS)

    resumed(sessions, [], [(ORDERS, 0)])
    assert session.topics() == {ORDERS}
    desk.ack(delivery, owner=OWNER)
    resumed(sessions, [], [(ORDERS, 1)], epoch=2)

    assert session.topics() == set()


def test_a_session_that_ends_gives_back_also_of_topics_that_it_has_forgotten(
    desk: Desk, sessions: ShareSessions
) -> None:
    session = opened(sessions)
    desk.acquire(owner=OWNER)
    session.lent.add(ORDERS)

    resumed(sessions, [], [(ORDERS, 0)])
    sessions.open("emails", OWNER, [], set())
    sessions.close("emails", OWNER)

    assert desk.values(owner="bob") == [b"1"]


def test_a_topic_that_is_gone_is_not_kept(desk: Desk, sessions: ShareSessions) -> None:
    session = opened(sessions)
    desk.acquire(owner=OWNER)
    session.lent.add(ORDERS)

    desk.broker.delete_topic("orders")
    resumed(sessions, [], [(ORDERS, 0)])

    assert session.topics() == set()
