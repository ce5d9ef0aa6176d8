"""Channels of an AMQP session without a socket, and the errors that close them."""

import pytest
from tests.heads.amqp091.sessions import (
    NOW_MS,
    SOFT,
    channel_closed,
    closed,
    refusal,
    tuned,
)
from tests.heads.amqp091.talking import START_OK, Talk

from mainstem.heads.amqp091 import fields, methods
from mainstem.heads.amqp091.codec import (
    BODY,
    HEADER,
    METHOD,
    frame,
    method_frame,
)
from mainstem.heads.amqp091.errors import ReplyCode
from mainstem.heads.amqp091.methods import Bare, Method


def test_a_channel_is_opened_used_and_closed() -> None:
    talk = Talk().opened()
    asked = (
        methods.ChannelOpen(),
        methods.QueueDeclare(queue="q"),
        Bare.TX_SELECT,
        methods.ChannelClose(200, "bye"),
        methods.ChannelOpen(),
    )

    for method in asked:
        assert talk.say(7, method) == [(7, method)]


ON_CHANNELS = [
    method()
    for ids, method in methods.METHODS.items()
    if ids[0] != 10
    and not method.__name__.endswith("Ok")
    and ids not in ((20, 10), (20, 20), (60, 40), (60, 50), (60, 60), (60, 72))
] + [methods.ChannelFlow(True), Bare.TX_SELECT, Bare.TX_COMMIT, Bare.TX_ROLLBACK]


@pytest.mark.parametrize("method", ON_CHANNELS, ids=lambda it: str(it)[:30])
def test_what_a_client_may_ask_for_on_a_channel(method: Method | Bare) -> None:
    assert Talk().opened(5).say(5, method) == [(5, method)]


@pytest.mark.parametrize(
    "method",
    [
        each
        for each in (*(each() for each in methods.METHODS.values()), *Bare)
        if each not in ON_CHANNELS and each.ids not in ((20, 10), (20, 20), (60, 40))
    ],
    ids=lambda it: str(it)[:30],
)
def test_what_a_client_may_not_ask_for_on_a_channel(method: Method | Bare) -> None:
    close = closed(Talk().opened(5).say(5, method))

    assert close == methods.ConnectionClose(
        503, "COMMAND_INVALID - unimplemented method", *method.ids
    )


def test_a_channel_is_opened_once() -> None:
    close = closed(Talk().opened(1).say(1, methods.ChannelOpen()))

    assert close == methods.ConnectionClose(
        504, "CHANNEL_ERROR - second 'channel.open' seen", 20, 10
    )


@pytest.mark.parametrize("channel", [1, 2, 65535])
@pytest.mark.parametrize(
    "method", [methods.QueueDeclare(), methods.ChannelClose(), Bare.CHANNEL_CLOSE_OK, START_OK]
)
def test_a_channel_is_opened_before_it_is_used(channel: int, method: Method | Bare) -> None:
    close = closed(Talk().opened().say(channel, method))

    assert close == methods.ConnectionClose(
        504, "CHANNEL_ERROR - expected 'channel.open'", *method.ids
    )


@pytest.mark.parametrize(
    ("method", "why"), [(methods.ChannelFlow(False), "NOT_IMPLEMENTED - active=false")]
)
def test_what_is_not_done_here(method: Method, why: str) -> None:
    assert closed(Talk().opened(1).say(1, method)).reply_text == why


def test_malformed_methods_are_named() -> None:
    talk = Talk().opened(1)

    close = closed(talk.feed([frame(METHOD, 1, b"\0\x32\0\x0a\0\0\xffq")]))

    assert close == methods.ConnectionClose(
        502, "SYNTAX_ERROR - a short string goes past the end", 50, 10
    )


@pytest.mark.parametrize("channel", [0, 1])
def test_an_unknown_method_is_refused(channel: int) -> None:
    close = closed(Talk().opened(1).feed([frame(METHOD, channel, b"\0\x63\0\x01")]))

    assert close == methods.ConnectionClose(
        503, "COMMAND_INVALID - unknown method 1 of class 99", 99, 1
    )


def test_a_deep_table_ends_the_connection_and_nothing_else() -> None:
    values = b""
    for _ in range(500):
        values = fields.long_string(b"\1kF" + values if values else b"")
    payload = b"\0\x32\0\x0a\0\0\1q\0" + values

    close = closed(Talk().opened(1).feed([frame(METHOD, 1, payload)]))

    assert close.reply_text == "SYNTAX_ERROR - tables nest more than 64 deep"


# Errors that close a channel


def test_a_soft_error_closes_the_channel_only() -> None:
    talk = Talk().opened(1, 2)

    close = channel_closed([talk.session.refused(SOFT, 1, NOW_MS)], 1)

    assert close == methods.ChannelClose(404, "NOT_FOUND - no queue 'q' in vhost '/'", 50, 20)
    assert talk.say(2, methods.QueueDeclare()) == [(2, methods.QueueDeclare())]


def test_what_comes_on_a_channel_after_its_close_is_ignored_until_close_ok() -> None:
    talk = Talk().opened(1)
    talk.session.refused(SOFT, 1, NOW_MS)

    ignored = (
        method_frame(1, methods.QueueDeclare()),
        method_frame(1, methods.ChannelOpen()),
        method_frame(1, methods.BasicPublish()),
        frame(HEADER, 1, b""),
        frame(BODY, 1, b"part"),
        frame(METHOD, 1, b"\xff"),
        method_frame(1, methods.BasicAck(1)),
    )
    assert talk.feed(ignored) == []
    assert talk.say(1, Bare.CHANNEL_CLOSE_OK, methods.ChannelOpen(), methods.BasicGet()) == [
        (1, methods.ChannelOpen()),
        (1, methods.BasicGet()),
    ]


def test_a_close_that_crosses_ours_is_answered() -> None:
    talk = Talk().opened(1)
    talk.session.refused(SOFT, 1, NOW_MS)
    close = methods.ChannelClose(200, "bye")

    assert talk.say(1, close) == [(1, close)]
    assert talk.say(1, methods.QueueDeclare()) == []
    assert talk.say(1, Bare.CHANNEL_CLOSE_OK, methods.ChannelOpen()) == [(1, methods.ChannelOpen())]


def test_a_channel_that_is_closing_counts() -> None:
    session = tuned(1, 0)
    session.receive(memoryview(method_frame(1, methods.ChannelOpen())))
    session.refused(SOFT, 1, NOW_MS)

    close = refusal(session, method_frame(2, methods.ChannelOpen()))

    assert close.reply_code == ReplyCode.NOT_ALLOWED


def test_a_channel_is_closed_once() -> None:
    talk = Talk().opened(1)

    assert talk.session.refused(SOFT, 1, NOW_MS)
    assert talk.session.refused(SOFT, 1, NOW_MS) == b""
    assert talk.session.refused(SOFT, 9, NOW_MS) == b""


def test_an_error_on_channel_0_closes_the_connection() -> None:
    close = closed([Talk().opened(1).session.refused(SOFT, 0, NOW_MS)])

    assert close.reply_code == 404
