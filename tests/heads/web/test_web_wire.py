"""An answer is one write; a head that has no body yet is sent at the end of the turn."""

import asyncio
from collections.abc import Callable

from tests.heads.transport.echo import run

from mainstem.heads.transport.traffic import Traffic
from mainstem.heads.web.wire import Wire

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


class Recorded(asyncio.Transport):
    """A transport that remembers what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return False


class Owner:
    """A connection that ends when it is told to."""

    def __init__(self) -> None:
        self.is_ending = False

    def end(self) -> None:
        self.is_ending = True

    def upgrade(self, protocol: asyncio.Protocol) -> None:
        del protocol


def on_wire(scenario: Callable[[Wire, Recorded], None]) -> list[bytes]:
    """Return what is written by the end of the turn after a scenario."""
    recorded = Recorded()

    async def whole() -> None:
        scenario(Wire(recorded, Owner(), Traffic()), recorded)
        await asyncio.sleep(0)

    run("uvloop", whole)
    return recorded.written


def test_head_and_body_are_one_write() -> None:
    def scenario(wire: Wire, _: Recorded) -> None:
        wire.write(HEAD)
        wire.write(b"body")
        wire.write(b"more")

    assert on_wire(scenario) == [HEAD + b"body", b"more"]


def test_a_head_alone_is_sent_at_the_end_of_the_turn() -> None:
    def scenario(wire: Wire, recorded: Recorded) -> None:
        wire.write(HEAD)
        assert recorded.written == []

    assert on_wire(scenario) == [HEAD]


def test_what_is_held_is_sent_before_the_end() -> None:
    def scenario(wire: Wire, recorded: Recorded) -> None:
        wire.write(HEAD)
        wire.flush()
        wire.close()
        wire.write(b"too late")
        assert recorded.written == [HEAD]

    assert on_wire(scenario) == [HEAD]
