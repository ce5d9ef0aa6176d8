"""A made-up protocol, a server of it, and scenarios on both event loops."""

import asyncio
import contextlib
import errno
import functools
import inspect
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import IO, ParamSpec

import pytest
import uvloop

from mainstem.heads.conversation import Answer, Later, Outbox, ProtocolError
from mainstem.heads.transport.server import Server, bind, serve

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
PATIENCE_S = 20
RUN = b"\0\x03run"
"""Frames that are handled together, however many there are."""


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
P = ParamSpec("P")


class Echo:
    """A made-up protocol: a length in two bytes, then a word that says what to do."""

    def __init__(self, later: dict[bytes, Later], file: IO[bytes] | None = None) -> None:
        self.later = later
        self.file = file
        self.closed = 0
        self.heard: list[bytes] = []

    def frame_size(self, view: memoryview) -> int | None:
        if len(view) < 2:
            return None
        (length,) = struct.unpack_from(">H", view)
        if length > 50_000:
            raise ProtocolError(f"{length} is too long", b"too long")
        return 2 + int(length)

    def handle(self, frame: memoryview) -> Answer | Later:
        word = bytes(frame[2:])
        self.heard.append(word)
        if word == b"bug":
            raise KeyError("a bug")
        if word.startswith(b"wait"):
            return self.later.setdefault(word, Later())
        if word == b"unspeakable":
            later = Later()
            later.fail(ValueError("it cannot be said"))
            return later
        if word.startswith(b"file"):
            assert self.file is not None
            return [struct.pack(">I", int(word[4:])), Piece(self.file, 0, int(word[4:]))]
        return [struct.pack(">H", len(word)), word]

    def handle_run(self, view: memoryview) -> tuple[Answer | Later, int] | None:
        words = bytes(view)
        if not words.startswith(RUN):
            return None
        count = 1
        while words.startswith(RUN * (count + 1)):
            count += 1
        self.heard += [RUN[2:]] * count
        return [RUN * count], len(RUN) * count

    def close(self) -> None:
        self.closed += 1


class Piece:
    """A stretch of a file."""

    def __init__(self, file: IO[bytes], position: int, length: int) -> None:
        self._file = file
        self.position, self.length = position, length

    def fileno(self) -> int:
        return self._file.fileno()

    def tobytes(self) -> bytes:
        self._file.seek(self.position)
        return self._file.read(self.length)


class Unreadable(Piece):
    """A stretch of a file on a disk that fails."""

    def tobytes(self) -> bytes:
        raise OSError(errno.EIO, "the disk is broken")


def framed(*words: bytes) -> bytes:
    return b"".join(struct.pack(">H", len(word)) + word for word in words)


class Served:
    """A server of that protocol, and what its conversations were."""

    def __init__(self, file: IO[bytes] | None = None) -> None:
        self.later: dict[bytes, Later] = {}
        self.file = file
        self.conversations: list[Echo] = []
        self.outboxes: list[Outbox] = []
        self.server: Server

    async def start(self, max_connections: int = 10, tls: ssl.SSLContext | None = None) -> None:
        def converse(outbox: Outbox) -> Echo:
            self.outboxes.append(outbox)
            self.conversations.append(Echo(self.later, self.file))
            return self.conversations[-1]

        listener = bind("127.0.0.1", 0)
        self.server = serve(listener, converse, max_connections=max_connections, tls=tls)

    async def connect(self, tls: ssl.SSLContext | None = None) -> Streams:
        return await asyncio.open_connection(*self.server.address.pair, ssl=tls)

    @contextlib.asynccontextmanager
    async def peer(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[Streams]:
        """Connect; hang up at the end of the block."""
        reader, writer = await self.connect(tls)
        yield reader, writer
        writer.close()


@contextlib.asynccontextmanager
async def serving(
    file: IO[bytes] | None = None,
    *,
    max_connections: int = 10,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Served]:
    """Serve until the end of the block."""
    served = Served(file)
    await served.start(max_connections, tls)
    yield served
    await served.server.close()


def run(loop: str, scenario: Callable[[], Awaitable[None]]) -> None:
    """Run a scenario on one of the event loops."""

    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await scenario()

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(main())


async def until(true: Callable[[], bool]) -> None:
    """Let others run until something is true."""
    while not true():  # noqa: ASYNC110 - it is the others' turn that is waited for
        await asyncio.sleep(0)


async def rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


each_loop = pytest.mark.parametrize("loop", list(LOOPS))
"""For tests that call ``run``, and look at something after the loop is closed."""


def on_each_loop(scenario: Callable[P, Awaitable[None]]) -> Callable[..., None]:
    """Make an async test run on both event loops."""

    @functools.wraps(scenario)
    def test(loop: str, *args: P.args, **fixtures: P.kwargs) -> None:
        run(loop, functools.partial(scenario, *args, **fixtures))

    # pytest gives a test what its signature names.
    signature = inspect.signature(scenario)
    chosen = inspect.Parameter("loop", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [chosen, *signature.parameters.values()]
    test.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return each_loop(test)
