"""The outbox: pushes, timers, and farewells."""

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import pytest
from tests.heads.transport.echo import (
    Echo,
    framed,
    on_each_loop,
    rest,
    run,
    until,
)

from mainstem.heads.conversation import Answer, Later, Outbox, ProtocolError
from mainstem.heads.transport import connection
from mainstem.heads.transport.answers import TURN_BYTES
from mainstem.heads.transport.server import Server, bind, serve
from mainstem.heads.transport.timer import now_ms


class Pushing(Echo):
    """Echoes, and hands out its outbox; a word may be an order to it."""

    def __init__(self, outbox: Outbox) -> None:
        super().__init__({})
        self.outbox = outbox

    def handle(self, frame: memoryview) -> Answer | Later:
        match bytes(frame[2:]).split(b" ", 1):
            case [b"end", farewell]:
                self.outbox.end((farewell,))
                return ()
            case [b"push", word]:
                self.outbox.send((word,))
                return ()
        return super().handle(frame)


class Timed(Pushing):
    """Has a deadline that tests move."""

    def __init__(self, outbox: Outbox) -> None:
        super().__init__(outbox)
        self.due: int | None = None
        self.ticks: list[int] = []
        self.ticked: Callable[[], Answer] = lambda: (b"tick",)

    def deadline(self) -> int | None:
        return self.due

    def tick(self, now_ms: int) -> Answer:
        self.ticks.append(now_ms)
        self.due = None
        return self.ticked()


class Polite(Pushing):
    """Has last words when the server stops."""

    def drain(self) -> Answer:
        return (b"goodbye",)


C = TypeVar("C", bound=Pushing)


class Peer:
    """A peer, and the server's side of it."""

    def __init__(self, server: Server, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.server, self.reader, self.writer = server, reader, writer


@contextlib.asynccontextmanager
async def meeting(kind: Callable[[Outbox], C]) -> AsyncIterator[tuple[Peer, C]]:
    """Give a peer that is connected, and its conversation."""
    begun: list[C] = []

    def converse(outbox: Outbox) -> C:
        begun.append(kind(outbox))
        return begun[-1]

    server = serve(bind("127.0.0.1", 0), converse, max_connections=10)
    reader, writer = await asyncio.open_connection(*server.address.pair)
    await until(lambda: bool(begun))
    yield Peer(server, reader, writer), begun[0]
    writer.close()
    await server.close()


@on_each_loop
async def test_a_push_does_not_wait_for_requests_that_are_unanswered() -> None:
    async with meeting(Pushing) as (peer, ours):
        peer.writer.write(framed(b"a", b"wait", b"b"))
        await until(lambda: b"wait" in ours.later)

        ours.outbox.send((b"pushed",))
        assert await peer.reader.readexactly(9) == framed(b"a") + b"pushed"
        ours.later[b"wait"].settle((b"answer",))

        assert await peer.reader.readexactly(9) == b"answer" + framed(b"b")


@on_each_loop
async def test_pushes_of_one_turn_leave_in_one_write_and_in_order() -> None:
    async with meeting(Pushing) as (peer, ours):
        words = [b"%04d" % number for number in range(1000)]

        for word in words:
            ours.outbox.send((word,))
        await until(lambda: peer.server.traffic.bytes_out > 0)

        assert peer.server.traffic.bytes_out == 4000, "all of them, by the first write"
        assert await peer.reader.readexactly(4000) == b"".join(words)


@on_each_loop
async def test_a_conversation_may_speak_first() -> None:
    class First(Pushing):
        def __init__(self, outbox: Outbox) -> None:
            super().__init__(outbox)
            outbox.send((b"welcome",))

    async with meeting(First) as (peer, _):
        assert await peer.reader.readexactly(7) == b"welcome"


@on_each_loop
async def test_who_pushes_to_a_peer_that_does_not_read_is_told_to_stop_and_when_to_go_on() -> None:
    async with meeting(Pushing) as (peer, ours):
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        pushed = calls = 0

        def push() -> None:
            nonlocal pushed
            while not ours.outbox.is_full and pushed < 64 * 1024 * 1024:
                ours.outbox.send((bytes(65536),))
                pushed += 65536

        def go_on() -> None:
            nonlocal calls
            calls += 1
            push()

        while not ours.outbox.is_full:
            push()
            await asyncio.sleep(0)
        for _ in range(50):
            await asyncio.sleep(0)
            push()
        assert ours.outbox.is_full
        stuck = pushed
        assert stuck < 32 * 1024 * 1024, "what the kernel takes, and a megabyte of ours"
        ours.outbox.when_room(go_on)
        for _ in range(50):
            await asyncio.sleep(0)
        assert calls == 0

        peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
        await peer.reader.readexactly(stuck)
        await until(lambda: calls == 1)

        await peer.reader.readexactly(pushed - stuck)
        assert stuck < pushed
        assert calls == 1


@on_each_loop
async def test_who_waits_for_room_that_is_there_is_called_soon_but_not_at_once() -> None:
    async with meeting(Pushing) as (_, ours):
        called: list[int] = []

        ours.outbox.when_room(lambda: called.append(1))
        assert not called
        await until(lambda: bool(called))

    assert called == [1]


@on_each_loop
async def test_a_push_to_a_peer_that_has_gone_is_nothing() -> None:
    async with meeting(Pushing) as (peer, ours):
        peer.writer.close()
        await until(lambda: ours.closed == 1)

        ours.outbox.send((b"late",))
        ours.outbox.when_room(lambda: pytest.fail("nobody is there"))
        ours.outbox.end((b"later",))
        await until(lambda: peer.server.connections() == [])

        assert ours.closed == 1


@on_each_loop
async def test_last_words_come_after_the_answers_to_what_was_asked_before() -> None:
    async with meeting(Pushing) as (peer, ours):
        peer.writer.write(framed(b"a", b"wait", b"end bye", b"never"))
        await until(lambda: ours.closed == 1)
        ours.later[b"wait"].settle((b"answer",))

        assert await peer.reader.read() == framed(b"a") + b"answer" + b"bye"
        peer.writer.close()
        await until(lambda: peer.server.connections() == [])
        assert ours.heard == [b"a", b"wait"]
        assert peer.server.traffic.cut_off == 0


@on_each_loop
async def test_last_words_reach_a_peer_that_goes_on_sending() -> None:
    async with meeting(Pushing) as (peer, ours):
        peer.writer.write(framed(b"end bye") + bytes(1 << 20))

        assert await peer.reader.read() == b"bye"
        peer.writer.close()
        await until(lambda: peer.server.connections() == [])
        assert ours.closed == 1


@on_each_loop
async def test_a_peer_that_does_not_close_after_last_words_is_closed(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connection, "LINGER_S", 0.01)

    async with meeting(Pushing) as (peer, ours):
        ours.outbox.end((b"bye",), "it is enough")
        await until(lambda: peer.server.connections() == [])

        assert await rest(peer.reader) == b"bye"
        assert peer.server.traffic.cut_off == 1

    (said,) = [it.getMessage() for it in caplog.records if it.name == "mainstem.heads"]
    assert said.endswith(": it is enough")


@on_each_loop
async def test_a_deadline_ticks_and_what_the_tick_returns_is_sent() -> None:
    async with meeting(Timed) as (peer, ours):
        ours.due = due = now_ms() + 20
        peer.writer.write(framed(b"a"))

        assert await peer.reader.readexactly(7) == framed(b"a") + b"tick"

        assert len(ours.ticks) == 1
        assert ours.ticks[0] >= due


@on_each_loop
async def test_a_deadline_set_by_a_push_or_by_a_tick_is_kept() -> None:
    async with meeting(Timed) as (peer, ours):

        def ticked() -> Answer:
            ours.due = now_ms() + 1 if len(ours.ticks) < 3 else None
            return (b"tick",)

        ours.ticked = ticked
        ours.due = now_ms() + 1
        ours.outbox.send((b"go",))

        assert await peer.reader.readexactly(14) == b"go" + b"tick" * 3


@on_each_loop
async def test_a_deadline_that_moves_away_does_not_tick_and_an_earlier_one_does() -> None:
    async with meeting(Timed) as (peer, ours):
        ours.due = now_ms() + 5
        ours.outbox.send((b"a",))
        assert await peer.reader.readexactly(1) == b"a"
        ours.due = moved = now_ms() + 100
        ours.outbox.send((b"b",))

        assert await peer.reader.readexactly(5) == b"btick"
        assert ours.ticks[0] >= moved

        ours.due = now_ms() + 3_600_000
        ours.outbox.send((b"c",))
        assert await peer.reader.readexactly(1) == b"c"
        ours.due = now_ms() + 5
        ours.outbox.send((b"d",))
        assert await peer.reader.readexactly(5) == b"dtick"


@on_each_loop
async def test_a_tick_can_cut_a_peer_off_and_no_tick_comes_after_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def ticked() -> Answer:
        raise ProtocolError("it is silent", b"silent")

    async with meeting(Timed) as (peer, ours):
        ours.ticked = ticked
        ours.due = now_ms()
        ours.outbox.send((b"a",))

        assert await rest(peer.reader) == b"asilent"
        peer.writer.close()
        await until(lambda: peer.server.connections() == [])
        assert ours.closed == 1
        ours.due = now_ms()
        ours.outbox.send((b"a",))
        await asyncio.sleep(0.01)
        assert len(ours.ticks) == 1
    assert "it is silent" in caplog.text


@on_each_loop
async def test_bytes_count_as_heard_also_if_no_frame_is_whole() -> None:
    async with meeting(Pushing) as (peer, ours):
        began = ours.outbox.heard_ms
        await until(lambda: now_ms() > began)

        peer.writer.write(struct.pack(">H", 50_000) + b"a")

        await until(lambda: ours.outbox.heard_ms > began)
        assert ours.heard == []


@on_each_loop
async def test_draining_says_last_words_once_what_was_asked_is_answered() -> None:
    async with meeting(Polite) as (peer, ours):
        peer.writer.write(framed(b"wait"))
        await until(lambda: b"wait" in ours.later)

        draining = asyncio.create_task(peer.server.drain(10, asyncio.Event()))
        for _ in range(20):
            await asyncio.sleep(0)
        ours.later[b"wait"].settle((b"answer",))

        assert await peer.reader.read() == b"answer" + b"goodbye"
        peer.writer.close()
        await draining
        assert ours.closed == 1


@on_each_loop
async def test_closing_says_last_words_to_who_could_not_be_answered_in_time() -> None:
    async with meeting(Polite) as (peer, ours):
        peer.writer.write(framed(b"wait"))
        await until(lambda: b"wait" in ours.later)

        await peer.server.close()

        assert await rest(peer.reader) == b"goodbye"
        assert ours.closed == 1


@on_each_loop
async def test_a_peer_that_never_reads_does_not_keep_a_drain_beyond_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[Polite] = []

    def converse(outbox: Outbox) -> Polite:
        begun.append(Polite(outbox))
        return begun[-1]

    server = serve(bind("127.0.0.1", 0), converse, max_connections=10)
    deaf = socket.create_connection(server.address.pair)
    await until(lambda: bool(begun))
    while not begun[0].outbox.is_full:
        begun[0].outbox.send((bytes(TURN_BYTES),))
        await asyncio.sleep(0)

    monkeypatch.setattr("mainstem.heads.transport.connection.LINGER_S", 0.01)
    monkeypatch.setattr("mainstem.heads.transport.server.LINGER_S", 0.01)
    await server.drain(0.05, asyncio.Event())
    await server.close()

    assert server.connections() == []
    assert begun[0].closed == 1
    deaf.close()


@on_each_loop
async def test_a_push_within_a_request_leaves_before_its_answer() -> None:
    async with meeting(Pushing) as (peer, _):
        peer.writer.write(framed(b"push one", b"a", b"push two"))

        assert await peer.reader.readexactly(9) == b"one" + framed(b"a") + b"two"


def test_a_conversation_without_more_is_asked_for_nothing_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Bare:
        """Has the three methods that every conversation has."""

        def __init__(self, outbox: Outbox) -> None:
            self.closed = 0

        def frame_size(self, view: memoryview) -> int | None:
            return len(view)

        def handle(self, frame: memoryview) -> Answer:
            return (bytes(frame),)

        def close(self) -> None:
            self.closed += 1

    async def scenario() -> None:
        server = serve(bind("127.0.0.1", 0), Bare, max_connections=10)
        reader, writer = await asyncio.open_connection(*server.address.pair)
        writer.write(b"abc")
        assert await reader.readexactly(3) == b"abc"

        await server.drain(1, asyncio.Event())

        assert await reader.read() == b""
        writer.close()
        await server.close()

    run("uvloop", scenario)

    assert [it for it in caplog.records if it.levelno > logging.INFO] == []
