"""AMQP clients without permission get an error in every channel mode."""

import pytest
from tests.heads.amqp091.raw_peers import frames_in, publish
from tests.heads.amqp091.talking import HANDSHAKE
from tests.heads.started import started
from tests.heads.transport.echo import run

from mainstem import auth
from mainstem.heads.amqp091 import HEAD, methods
from mainstem.heads.amqp091.codec import method_frame
from mainstem.heads.amqp091.errors import ReplyCode
from mainstem.heads.amqp091.methods import Method

QUEUE = "theirs"
SETUP = (methods.ChannelOpen(), methods.QueueDeclare(queue=QUEUE))
CONFIRM = methods.ConfirmSelect()


def said(*asked: Method) -> bytes:
    return b"".join(method_frame(1, each) for each in asked)


@pytest.mark.parametrize(
    ("action", "asked"),
    [
        (auth.Action.CREATE, said(methods.QueueDeclare(queue="mine"))),
        (auth.Action.WRITE, publish(QUEUE, b"x")),
        (auth.Action.WRITE, said(CONFIRM) + publish(QUEUE, b"x")),
        (auth.Action.WRITE, said(CONFIRM) + publish(QUEUE, b"x") * 3),
        (auth.Action.READ, said(methods.BasicGet(queue=QUEUE))),
        (auth.Action.READ, said(methods.BasicConsume(queue=QUEUE, consumer_tag="c"))),
        (auth.Action.DELETE, said(methods.QueueDelete(queue=QUEUE))),
    ],
)
def test_who_is_denied_something_is_refused_it(action: auth.Action, asked: bytes) -> None:
    denied: set[auth.Action] = set()

    def authorize(principal: auth.Principal, action: auth.Action, resource: auth.Resource) -> None:
        if action in denied:
            auth.deny_all(principal, action, resource)

    async def scenario() -> None:
        async with started(HEAD, auth=auth.Auth(authorize=authorize)) as server:
            peer = await server.peer()
            await peer.say(HANDSHAKE + said(*SETUP))
            denied.add(action)
            await peer.say(asked)
            told = [each for _, each in frames_in(await peer.end())]
            (closed,) = [each for each in told if isinstance(each, methods.ChannelClose)]
            assert closed.reply_code == ReplyCode.ACCESS_REFUSED
            assert not [each for each in told if isinstance(each, methods.BasicAck)]

    run("uvloop", scenario)
