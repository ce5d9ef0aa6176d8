"""Connections: the same behaviour on both event loops, however the stream is cut."""

import asyncio
import logging
import socket
import struct
import tempfile
from collections.abc import Iterator
from functools import partial
from typing import IO

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.exhausted_descriptors import all_taken
from tests.heads.transport.echo import (
    RUN,
    Unreadable,
    each_loop,
    framed,
    on_each_loop,
    rest,
    run,
    serving,
    until,
)

from mainstem.heads.conversation import Answer
from mainstem.heads.transport import connection, receiver, send_queue, server
from mainstem.heads.transport.answers import MAX_UNANSWERED


@each_loop
@settings(max_examples=15)
@given(
    words=st.lists(st.just(RUN[2:]) | st.binary(max_size=40), min_size=1, max_size=30),
    cuts=st.lists(st.integers(1, 60), max_size=30),
)
def test_cutting_the_stream_anywhere_changes_nothing(
    loop: str, words: list[bytes], cuts: list[int]
) -> None:
    words = [word for word in words if not word.startswith((b"wait", b"file", b"bug"))]
    stream = framed(*words)

    async def scenario() -> None:
        async with serving() as served, served.peer() as (reader, writer):
            at = 0
            for cut in [*cuts, len(stream)]:
                writer.write(stream[at : at + cut])
                await writer.drain()
                await asyncio.sleep(0)
                at += cut
            writer.write_eof()
            assert await rest(reader) == stream
        assert served.conversations[0].heard == words

    run(loop, scenario)


@on_each_loop
async def test_answers_leave_in_the_order_of_the_requests() -> None:
    async with serving() as served, served.peer() as (reader, writer):
        writer.write(framed(b"a", b"wait1", b"b", b"wait2", b"c"))
        await until(lambda: b"wait2" in served.later)

        assert await reader.readexactly(3) == framed(b"a")
        served.later[b"wait2"].settle([b"second"])
        served.later[b"wait1"].settle([b"first"])

        expected = b"first" + framed(b"b") + b"second" + framed(b"c")
        assert await reader.readexactly(len(expected)) == expected


@on_each_loop
async def test_an_empty_answer_sends_nothing() -> None:
    async with serving() as served, served.peer() as (reader, writer):
        writer.write(framed(b"wait", b"a"))
        await until(lambda: b"wait" in served.later)

        served.later[b"wait"].settle(())

        assert await reader.readexactly(3) == framed(b"a")


@on_each_loop
async def test_answers_are_made_as_the_peer_reads() -> None:
    count, size = 60, 1 << 20

    async with serving() as served, served.peer() as (reader, writer):
        words, made = [b"wait%02d" % number for number in range(count)], list[bytes]()
        writer.write(framed(*words))
        await until(lambda: len(served.later) == count)

        def make(word: bytes) -> Answer:
            made.append(word)
            return [word, bytes(size - len(word))]

        for word in reversed(words):
            served.later[word].settle(partial(make, word))
        await until(lambda: bool(made))
        for _ in range(100):
            await asyncio.sleep(0)

        assert len(made) < count // 2, "the kernel holds a few megabytes, and we one"
        for word in words:
            assert (await reader.readexactly(size)).startswith(word)
        assert made == words


@on_each_loop
async def test_a_peer_that_breaks_the_protocol_is_told_and_cut_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as served, served.peer() as (reader, writer):
        writer.write(framed(b"a") + struct.pack(">H", 60_000))

        assert await rest(reader) == framed(b"a") + b"too long"
        writer.close()
        await until(lambda: served.server.connections() == [])
        assert served.conversations[0].closed == 1

    (said,) = [it.getMessage() for it in caplog.records if it.name == "mainstem.heads"]
    assert said.startswith("closing 127.0.0.1:")
    assert said.endswith(": 60000 is too long")


@on_each_loop
async def test_a_bug_costs_one_connection_and_is_told_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as served, served.peer() as (reader, writer):
        other_reader, other_writer = await served.connect()
        writer.write(framed(b"a", b"bug", b"b"))

        assert await rest(reader) == framed(b"a")
        other_writer.write(framed(b"c"))
        assert await other_reader.readexactly(3) == framed(b"c")
        writer.close()
        other_writer.close()

    (said,) = [it for it in caplog.records if it.levelno == logging.ERROR]
    assert said.exc_info


@on_each_loop
async def test_an_answer_that_fails_later_costs_one_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as served, served.peer() as (reader, writer):
        writer.write(framed(b"wait"))
        await until(lambda: b"wait" in served.later)

        served.later[b"wait"].fail(ValueError("it cannot be said"))

        assert await rest(reader) == b""
    assert "it cannot be said" in caplog.text


@on_each_loop
async def test_an_answer_that_failed_at_once_costs_one_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as served, served.peer() as (reader, writer):
        writer.write(framed(b"a", b"unspeakable", b"b"))

        assert await rest(reader) == framed(b"a")
    assert "it cannot be said" in caplog.text


@on_each_loop
@pytest.mark.parametrize("others", [0, 1])
async def test_an_answer_that_cannot_be_read_later_costs_one_connection(
    others: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving() as served, served.peer() as (reader, writer):
        writer.write(framed(b"wait", *[b"a"] * others))
        await until(lambda: bool(served.later))

        with tempfile.TemporaryFile() as file:
            served.later[b"wait"].settle([b"half", Unreadable(file, 0, 10)])

            assert await rest(reader) == b"half"

    (said,) = [it for it in caplog.records if it.levelno == logging.ERROR]
    assert said.exc_info


@on_each_loop
@pytest.mark.parametrize("goodbye", ["close", "reset"])
async def test_the_conversation_ends_once_when_the_peer_goes(goodbye: str) -> None:
    async with serving() as served, served.peer() as (_, writer):
        writer.write(framed(b"a", b"wait"))
        await until(lambda: b"wait" in served.later)

        if goodbye == "reset":
            raw: socket.socket = writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        else:
            writer.close()
        await until(lambda: served.conversations[0].closed == 1)
        # Too late: nobody is there, and nothing breaks.
        served.later[b"wait"].settle([b"late"])
        await until(lambda: served.server.connections() == [])

        assert served.conversations[0].closed == 1


@on_each_loop
async def test_too_many_requests_unanswered_are_not_read() -> None:
    async with serving() as served, served.peer() as (reader, writer):
        words = [b"wait%d" % number for number in range(3 * MAX_UNANSWERED)]
        writer.write(framed(*words))
        await until(lambda: len(served.later) >= MAX_UNANSWERED)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(served.later) == MAX_UNANSWERED

        for word in words:
            await until(lambda word=word: word in served.later)  # type: ignore[misc]
            served.later[word].settle([word])

        expected = b"".join(words)
        assert await reader.readexactly(len(expected)) == expected


@pytest.fixture
def large() -> Iterator[IO[bytes]]:
    with tempfile.TemporaryFile() as file:
        file.write(bytes(range(256)) * 40_000)
        file.flush()
        yield file


@on_each_loop
async def test_a_peer_that_reads_late_gets_files_whole_and_in_order(large: IO[bytes]) -> None:
    sizes = [100, send_queue.SENDFILE_FROM, 10_000_000, 5, 9_999_999]

    async with serving(large) as served, served.peer() as (reader, writer):
        writer.write(framed(*[b"file%d" % size for size in sizes], b"end"))
        await until(lambda: served.conversations != [] and served.conversations[0].heard != [])
        await asyncio.sleep(0)

        for size in sizes:
            (length,) = struct.unpack(">I", await reader.readexactly(4))
            assert length == size
            found = await reader.readexactly(size)
            assert found == (bytes(range(256)) * (size // 256 + 1))[:size]
        assert await reader.readexactly(5) == framed(b"end")


@on_each_loop
async def test_connections_beyond_the_limit_are_refused(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(max_connections=1) as served, served.peer() as (first_reader, first):
        first.write(framed(b"a"))
        assert await first_reader.readexactly(3) == framed(b"a")

        reader, writer = await served.connect()

        assert await rest(reader) == b""
        writer.close()
    assert "refusing 127.0.0.1:" in caplog.text


@on_each_loop
async def test_closing_the_server_sends_what_was_answered_and_waits_for_nobody() -> None:
    async with serving() as served, served.peer() as (reader, writer):
        writer.write(framed(b"a", b"wait"))
        await until(lambda: b"wait" in served.later)

        await served.server.close()

        assert await rest(reader) == framed(b"a")
        assert served.conversations[0].closed == 1
        assert served.server.connections() == []


@on_each_loop
async def test_closing_the_server_cuts_off_a_peer_that_never_reads(
    large: IO[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (connection, server):
        monkeypatch.setattr(module, "LINGER_S", 0.01)

    async with serving(large) as served:
        host, port = served.server.address.pair
        deaf = socket.create_connection((host, port))
        deaf.sendall(framed(b"file10000000", b"file10000000"))
        await until(lambda: served.conversations != [] and len(served.conversations[0].heard) == 2)

        await served.server.close()

        assert served.server.connections() == []
        assert served.conversations[0].closed == 1
        deaf.close()


def test_whoever_began_first_may_finish_and_the_others_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in (receiver, server):
        monkeypatch.setattr(module, "UNFINISHED_BYTES", 20_000)
        monkeypatch.setattr(module, "READ_BYTES", 16_384)
    words = [bytes([65 + number]) * 40_000 for number in range(8)]

    async def scenario() -> None:
        async with serving() as served:
            peers = [await served.connect() for _ in words]
            for (_, writer), word in zip(peers, words, strict=True):
                writer.write(framed(word)[:30_000])
            for (_, writer), word in zip(peers, words, strict=True):
                writer.write(framed(word)[30_000:])
            for (reader, writer), word in zip(peers, words, strict=True):
                assert await reader.readexactly(40_002) == framed(word)
                writer.close()

    run("uvloop", scenario)


@on_each_loop
async def test_a_crowd_at_the_door_is_let_in_within_a_few_turns() -> None:
    async with serving(max_connections=1000) as served:
        crowd = [socket.create_connection(served.server.address.pair) for _ in range(500)]
        turns = 0

        while len(served.conversations) < len(crowd):
            turns += 1
            await asyncio.sleep(0)

        assert turns < 100
        for peer in crowd:
            peer.close()


@on_each_loop
async def test_without_descriptors_the_others_are_served_and_newcomers_later() -> None:
    async with serving() as served, served.peer() as (reader, writer):
        newcomer = socket.socket()

        with all_taken():
            newcomer.connect(served.server.address.pair)
            writer.write(framed(b"word"))
            assert await reader.readexactly(6) == framed(b"word")
            assert len(served.conversations) == 1
        await until(lambda: len(served.conversations) == 2)

        newcomer.close()


@on_each_loop
async def test_a_peer_that_has_just_gone_does_not_keep_the_others_from_draining() -> None:
    async with serving() as served:
        gone = socket.create_connection(served.server.address.pair)
        reader, writer = await served.connect()
        await until(lambda: len(served.conversations) == 2)
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        gone.close()
        await served.server.drain(1, asyncio.Event())

        assert await reader.read() == b""
        writer.close()
