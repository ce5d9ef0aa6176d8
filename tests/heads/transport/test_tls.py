"""Encrypted connections: the same conversation, nothing in plain text, no handshake that stalls."""

import asyncio
import logging
import os
import socket
import ssl
import struct
import tempfile
from collections.abc import Callable

import pytest
import trustme
from tests.heads.transport.echo import framed, on_each_loop, rest, serving, until

from mainstem.heads.transport import acceptor


class Tls:
    """A certificate for 127.0.0.1, as a server presents it and as a client trusts it."""

    def __init__(self) -> None:
        authority = trustme.CA()
        self.server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        authority.issue_cert("127.0.0.1").configure_cert(self.server)
        self.client = ssl.create_default_context()
        authority.configure_trust(self.client)


@pytest.fixture(scope="module")
def tls() -> Tls:
    return Tls()


@on_each_loop
async def test_answers_files_and_late_answers_arrive_encrypted_and_in_order(tls: Tls) -> None:
    stretch = os.urandom(1_000_000)
    with tempfile.TemporaryFile() as file:
        file.write(stretch)
        file.flush()
        async with (
            serving(file, tls=tls.server) as served,
            served.peer(tls.client) as (reader, writer),
        ):
            writer.write(framed(b"a", b"wait", b"file1000000", b"z"))
            await until(lambda: b"wait" in served.later)
            served.later[b"wait"].settle([b"late"])

            expected = framed(b"a") + b"late" + struct.pack(">I", len(stretch)) + stretch
            expected += framed(b"z")
            assert await reader.readexactly(len(expected)) == expected
            assert served.outboxes[0].is_tls


@on_each_loop
async def test_nothing_is_sent_in_plain_text(tls: Tls) -> None:
    secret = b"a word that must not be seen on the wire"

    async with serving(tls=tls.server) as served:
        seen = bytearray()
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = tls.client.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
        reader, writer = await served.connect()

        async def converse(step: Callable[[], object]) -> object:
            while True:
                try:
                    done = step()
                except ssl.SSLWantReadError:
                    done = None
                writer.write(outgoing.read())
                if done is not None:
                    return done
                came = await reader.read(65536)
                seen.extend(came)
                incoming.write(came)

        def shake_hands() -> object:
            client.do_handshake()
            return True

        await converse(shake_hands)
        client.write(framed(secret))
        assert await converse(lambda: client.read(1000)) == framed(secret)
        assert secret not in seen
        writer.close()


@on_each_loop
async def test_a_peer_that_does_not_read_costs_no_more_than_without_tls(tls: Tls) -> None:
    word = b"x" * 40_000

    async with serving(tls=tls.server) as served, served.peer(tls.client) as (reader, writer):
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(2000):
            writer.write(framed(word))
        await until(lambda: served.outboxes != [] and served.outboxes[0].is_full)
        taken = len(served.conversations[0].heard)
        for _ in range(200):
            await asyncio.sleep(0)

        assert len(served.conversations[0].heard) <= taken + 100
        reader._transport.resume_reading()  # type: ignore[attr-defined]
        for _ in range(2000):
            assert await reader.readexactly(2 + len(word)) == framed(word)


@on_each_loop
async def test_plain_text_to_a_tls_port_is_refused_and_the_log_says_who_and_why(
    tls: Tls, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with serving(tls=tls.server) as served:
        reader, writer = await served.connect()
        peer = writer.get_extra_info("sockname")
        writer.write(b"GET / HTTP/1.1\r\n\r\n" * 10)
        await rest(reader)
        writer.close()
        await until(lambda: served.server.traffic.cut_off == 1)

        assert served.conversations == []
        assert served.server.traffic.open == 0
        line = f"closing 127.0.0.1:{peer[1]} before it has connected: [SSL"
        assert any(line in each for each in caplog.messages)


@on_each_loop
async def test_a_handshake_that_stalls_ends_and_others_are_served_meanwhile(
    tls: Tls, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor, "HANDSHAKE_S", 0.2)

    async with serving(tls=tls.server) as served:
        with socket.create_connection(served.server.address.pair):
            reader, writer = await served.connect(tls.client)
            writer.write(framed(b"a"))
            assert await reader.readexactly(3) == framed(b"a")
            writer.close()
            await until(lambda: served.server.traffic.accepted == 2)
            await until(lambda: served.server.traffic.open == 0)

        assert served.server.traffic.cut_off == 1


@on_each_loop
async def test_a_server_that_closes_does_not_wait_for_handshakes(tls: Tls) -> None:
    async with serving(tls=tls.server) as served:
        with socket.create_connection(served.server.address.pair):
            await until(lambda: served.server.traffic.accepted == 1)
            await served.server.close()

            await until(lambda: served.server.traffic.open == 0)


@on_each_loop
async def test_draining_ends_encrypted_connections(tls: Tls) -> None:
    async with serving(tls=tls.server) as served, served.peer(tls.client) as (reader, writer):
        writer.write(framed(b"wait"))
        await until(lambda: b"wait" in served.later)

        draining = asyncio.ensure_future(served.server.drain(10, asyncio.Event()))
        await asyncio.sleep(0)
        served.later[b"wait"].settle([b"at last"])

        assert await rest(reader) == b"at last"
        await draining
