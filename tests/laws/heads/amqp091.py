"""AMQP 0-9-1 for the laws of every head."""

from hypothesis import strategies as st
from tests.heads.amqp091.raw_peers import frames_in
from tests.heads.amqp091.talking import HANDSHAKE, publish_frames
from tests.heads.amqp091.values import drawn
from tests.heads.started import TOPIC
from tests.laws.heads.examples import Examples, Outcomes

from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.codec import FRAME_OVERHEAD, HEAD, METHOD, PROTOCOL_HEADER, method_frame
from mainstem.heads.amqp091.errors import ReplyCode
from mainstem.heads.amqp091.methods import METHODS, Bare, Method
from mainstem.heads.amqp091.settings import AmqpSettings
from mainstem.heads.head import RunningHead


def _on_channel(*asked: Method | Bare) -> bytes:
    return b"".join(method_frame(1, each) for each in (methods.ChannelOpen(), *asked))


def _publish(routing_key: str, body: bytes, *, mandatory: bool = False) -> bytes:
    frames = publish_frames(1, routing_key, body)
    frames[0] = method_frame(1, methods.BasicPublish(routing_key=routing_key, mandatory=mandatory))
    return b"".join(frames)


def _declare(queue: str) -> Method:
    """Declare a queue on the topic that is there."""
    return methods.QueueDeclare(queue=queue, durable=True, arguments={"x-mainstem-topic": TOPIC})


_ASK = _on_channel(_declare("asked"), methods.ConfirmSelect()) + _publish("asked", b"value")
_CONSUME = _on_channel(
    methods.QueueDeclare(queue=TOPIC, durable=True),
    methods.BasicConsume(queue=TOPIC, consumer_tag="waits"),
)


def _answers(heard: bytes) -> object:
    """Tell confirms apart: how many come in a frame, and between which answers, is free."""
    answers = frames_in(heard)
    confirmed: set[int] = set()
    for _, answer in answers:
        if isinstance(answer, methods.BasicAck):
            last = answer.delivery_tag
            assert last not in confirmed
            confirmed |= set(range(1 if answer.multiple else last, last + 1))
    return [each for each in answers if not isinstance(each[1], methods.BasicAck)], confirmed


def _told(heard: bytes, _: RunningHead) -> object:
    for _channel, answer in frames_in(heard):
        if isinstance(answer, methods.ChannelClose | methods.ConnectionClose):
            return ReplyCode(answer.reply_code)
        if isinstance(answer, methods.BasicAck):
            return answer
    return None


def _there_and_back(message: tuple[int, Method | Bare]) -> object:
    (found,) = frames_in(method_frame(*message))
    return found


EXAMPLES = Examples(
    settings=AmqpSettings(),
    # Short, as it is cut at every place.
    stream=PROTOCOL_HEADER
    + method_frame(0, methods.ConnectionStartOk(response=b"\0u\0p"))
    + method_frame(0, methods.ConnectionTuneOk())
    + method_frame(0, methods.ConnectionOpen())
    + _on_channel(_declare("q"), methods.ConfirmSelect())
    + _publish("q", b"one")
    + _publish("", b"", mandatory=True)
    + b"".join(publish_frames(1, "q", b"parts", part_bytes=3))
    + method_frame(1, methods.BasicGet(queue="q"))
    + method_frame(1, methods.BasicNack(1, False, True)),
    answers=_answers,
    ask=HANDSHAKE + _ASK,
    told=_told,
    outcomes=Outcomes(
        done=methods.BasicAck(1),
        denied=ReplyCode.ACCESS_REFUSED,
        unauthenticated=ReplyCode.ACCESS_REFUSED,
    ),
    publishes=True,
    messages=st.tuples(
        st.integers(0, 2**16 - 1),
        st.sampled_from(list(METHODS.values())).flatmap(drawn) | st.sampled_from(Bare),
    ),
    there_and_back=_there_and_back,
    take=lambda _: HANDSHAKE + _CONSUME,
    # As RabbitMQ does, the head lets clients off the bytes around the payload.
    limit=AmqpSettings().frame_max + FRAME_OVERHEAD,
    claims=lambda size: HANDSHAKE + HEAD.pack(METHOD, 0, size - FRAME_OVERHEAD),
    login=HANDSHAKE.replace(b"secret", b"wrong!") + _ASK,
    wait=HANDSHAKE + _CONSUME,
    wait_begins=method_frame(1, methods.BasicConsumeOk("waits")),
    unread=HANDSHAKE + _on_channel() + _publish("nowhere", bytes(1000), mandatory=True) * 300,
)
