"""A thousand streams at once, some of which are not read: all others get every event, in bounds."""

import asyncio
import contextlib
import json
import re
from pathlib import Path

import httpx
from tests.heads.server_process import PATIENCE_S, Process, connected

FREE = "127.0.0.1:0"
CLIENTS, SLOW, EVENTS = 950, 50, 300
BACKLOG_MB = 8
LINES = {"content-type": "application/x-ndjson"}
TEXT = "x" * 1000
ASK = b"GET /topics/orders/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"


class Reader:
    """A client that reads the ids and values of what it is sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def begin(self) -> None:
        self._writer.write(ASK)
        await self._reader.readuntil(b"id: 0:1\n\n")

    async def values(self, count: int) -> list[int]:
        """Return the numbers of the next events."""
        found: list[int] = []
        while len(found) < count:
            line = await self._reader.readuntil(b"\n")
            if line.startswith(b"data: "):
                found.append(json.loads(line[6:])["value"][0])
        return found

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(ConnectionError):
            await self._writer.wait_closed()


def test_a_thousand_streams_at_once_of_which_some_are_not_read(tmp_path: Path) -> None:
    settings = {"http__listen": FREE, "http__slow_client_s": 2.0}
    with Process(tmp_path / "data", log=tmp_path / "log", **settings) as server:
        address = server.addresses["http"]
        url = f"http://{address}/topics/orders/events"
        httpx.post(url, json=0, timeout=PATIENCE_S, trust_env=False).raise_for_status()
        asyncio.run(asyncio.wait_for(_follow(server, address, url), 2 * PATIENCE_S))

        dropped = re.findall(r"dropping the stream of", server.logged())
        assert len(dropped) == SLOW


async def _follow(server: Process, address: str, url: str) -> None:
    host, _, port = address.rpartition(":")
    async with httpx.AsyncClient(timeout=PATIENCE_S, trust_env=False) as client:
        # More than the kernel buffers for a client that does not read.
        for _ in range(BACKLOG_MB):
            body = b'["%b"]\n' % TEXT.encode() * 1000
            old = url.replace("orders", "backlog")
            (await client.post(old, content=body, headers=LINES)).raise_for_status()
        slow = [connected(address, receive_buffer=4096) for _ in range(SLOW)]
        readers = [Reader(*await asyncio.open_connection(host, int(port))) for _ in range(CLIENTS)]
        try:
            for each in slow:
                each.sendall(ASK.replace(b"orders/events", b"backlog/events?from=earliest"))
            await asyncio.gather(*(each.begin() for each in readers))
            while server.metric("mainstem_http_streams") < CLIENTS + SLOW:  # noqa: ASYNC110 - it is another process
                await asyncio.sleep(0)
            server.forget_peak()
            before = server.memory_mb()
            lines = b"".join(b'[%d,"%b"]\n' % (n, TEXT.encode()) for n in range(EVENTS))
            (await client.post(url, content=lines, headers=LINES)).raise_for_status()

            found = await asyncio.gather(*(each.values(EVENTS) for each in readers))
            while server.metric("mainstem_http_slow_clients_total") < SLOW:  # noqa: ASYNC110 - it is another process
                await asyncio.sleep(0)

            assert found == [list(range(EVENTS))] * CLIENTS
            grown = server.peak_mb() - before
            print(f"memory grew by {grown:.1f} MB")  # noqa: T201 - a figure for whoever asks with -s
            assert grown < (CLIENTS + SLOW) * 0.2
        finally:
            for each in slow:
                each.close()
            for reader in readers:
                await reader.close()
