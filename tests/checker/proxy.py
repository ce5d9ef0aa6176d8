"""A network between clients and their server that can be cut: a TCP proxy in a thread."""

import asyncio
import threading
from contextlib import suppress

from tests.faults.killable_server import free_port

PATIENCE_S = 30


class Proxy:
    """Passes on what goes to and fro between its own port and ``target``."""

    def __init__(self) -> None:
        self.port = self.target = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._is_mute = self._is_down = False
        self._swallowed = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._run()))
        self._thread.start()
        assert self._ready.wait(PATIENCE_S), "the proxy does not listen"

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.close()

    @property
    def address(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self.port}"

    def mute(self) -> None:
        """Let requests through, and no answer."""
        self._swallowed.clear()
        self._is_mute = True

    def wait_until_swallowed(self) -> None:
        """Wait until an answer did not get through."""
        assert self._swallowed.wait(PATIENCE_S), "nothing was answered"

    def cut(self) -> None:
        """Break every connection off, and let nobody connect."""
        self._is_down = True
        self._loop.call_soon_threadsafe(self._abort)

    def heal(self) -> None:
        """Let everything through from now on; connections that lost something are broken off."""
        self._loop.call_soon_threadsafe(self._abort)
        self._is_mute = self._is_down = False

    def _abort(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _run(self) -> None:
        server = await asyncio.start_server(self._pass_on, "127.0.0.1", free_port())
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            self._ready.set()
            await self._stop.wait()
            # A connection that is taken, and not made yet, could not be made after closing.
            for listening in server.sockets:
                self._loop.remove_reader(listening)
            await asyncio.sleep(0)
        self._is_down = True
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            self._abort()
            await asyncio.wait(others, timeout=0.1)
        # Breaking off takes another turn of the loop.
        await asyncio.sleep(0)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            if self._is_down:
                return
            with suppress(OSError):
                far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self.target)
                self._writers.add(far_writer)
                try:
                    asked = self._pump(reader, far_writer, answers=False)
                    answered = self._pump(far_reader, writer, answers=True)
                    await asyncio.gather(asked, answered)
                finally:
                    self._writers.discard(far_writer)
                    far_writer.transport.abort()
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(1 << 16):
                if answers and self._is_mute:
                    self._swallowed.set()
                    continue
                writer.write(data)
                await writer.drain()
        # When one side has gone, so has the other.
        writer.transport.abort()
