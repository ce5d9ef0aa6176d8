"""AMQP peers that speak byte by byte."""

from mainstem.heads.amqp091.codec import BODY, FRAME_END, HEAD, HEADER, HEARTBEAT, METHOD
from mainstem.heads.amqp091.methods import Bare, Method, decode_method

Said = Method | Bare | bytes
"""A method, or the payload of a content header, a part of a body, a heartbeat."""


def frames_in(data: bytes) -> list[tuple[int, Said]]:
    """Return what whole frames say, and on which channel."""
    found: list[tuple[int, Said]] = []
    while data:
        kind, channel, size = HEAD.unpack_from(data)
        end = HEAD.size + size
        payload = data[HEAD.size : end]
        assert kind in (METHOD, HEADER, BODY, HEARTBEAT)
        assert len(data) > end
        assert data[end] == FRAME_END
        found.append((channel, decode_method(payload) if kind == METHOD else payload))
        data = data[end + 1 :]
    return found
