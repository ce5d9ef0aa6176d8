"""AMQP sessions without a socket, in every phase, and what they say when they refuse."""

from collections.abc import Callable

import pytest
from tests.heads.amqp091.talking import START_OK, TUNE_OK, Seen, said

from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.codec import (
    PROTOCOL_HEADER,
    method_frame,
)
from mainstem.heads.amqp091.errors import AmqpError, ReplyCode
from mainstem.heads.amqp091.session import (
    Phase,
    Session,
)
from mainstem.heads.amqp091.settings import AmqpSettings

NOW_MS = 1_000_000
SOFT = AmqpError(ReplyCode.NOT_FOUND, "no queue 'q' in vhost '/'", 50, 20)
HARD = AmqpError(ReplyCode.NOT_ALLOWED, "not here", 60, 20)
PHASES = (Phase.STARTING, Phase.SECURING, Phase.TUNING, Phase.OPENING, Phase.RUNNING)


def closed(seen: list[Seen]) -> methods.ConnectionClose:
    """Return the only thing that came of it: Connection.Close."""
    (data,) = seen
    assert isinstance(data, bytes)
    channel, method = said(data)
    assert channel == 0
    assert isinstance(method, methods.ConnectionClose)
    return method


def channel_closed(seen: list[Seen], channel: int) -> methods.ChannelClose:
    """Return the only thing that came of it: Channel.Close."""
    (data,) = seen
    assert isinstance(data, bytes)
    at, method = said(data)
    assert at == channel
    assert isinstance(method, methods.ChannelClose)
    return method


STEPS: dict[Phase, Callable[[Session], object]] = {
    Phase.STARTING: lambda session: session.receive(memoryview(PROTOCOL_HEADER)),
    Phase.SECURING: lambda session: session.receive(memoryview(method_frame(0, START_OK))),
    Phase.TUNING: Session.tune,
    Phase.OPENING: lambda session: session.receive(memoryview(method_frame(0, TUNE_OK))),
    Phase.RUNNING: Session.open_ok,
}
"""What brings a session into each phase, in their order."""


def in_phase(phase: Phase) -> Session:
    """Return a session that has got so far."""
    session = Session(AmqpSettings(), NOW_MS)
    for reached, step in STEPS.items():
        step(session)
        if reached is phase:
            break
    return session


def refusal(session: Session, data: bytes) -> methods.ConnectionClose:
    """Say a frame that is refused; returns Connection.Close."""
    view = memoryview(data)
    assert session.frame_size(view) == len(data)
    with pytest.raises(AmqpError) as found:
        session.receive(view)
    return closed([session.refused(found.value, session.channel, NOW_MS)])


def tuned(channel_max: int, frame_max: int, heartbeat: int = 0) -> Session:
    session = in_phase(Phase.TUNING)
    tune_ok = methods.ConnectionTuneOk(channel_max, frame_max, heartbeat)
    session.receive(memoryview(method_frame(0, tune_ok)))
    session.open_ok()
    return session
