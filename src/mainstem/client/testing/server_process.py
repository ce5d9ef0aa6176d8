"""The server process of a test run; it reads commands from standard input.

``advance MILLISECONDS`` moves its clock forward, handles the deadlines that passed, and prints
``moved``. ``start HEAD ADDRESS`` makes it listen for a protocol, and prints ``started`` with the
address. The process stops when its input ends, which happens when the test run ends, for whatever
reason. Only standard input controls the clock, so that no other process on the machine can move it.
"""

import asyncio
import sys
from pathlib import Path

import uvloop

from mainstem.core.topic_settings import Durability
from mainstem.node.config import Config
from mainstem.node.node import time_of_day_ms
from mainstem.node.server import Running, running

CONFIG = Config(durability=Durability.DISK)
"""Settings of the server: a test can only observe kill -9, and ``disk`` does not wait for syncs."""


class Clock:
    """The server's clock: the time of day, plus what the test has advanced it by."""

    def __init__(self, moved_ms: int) -> None:
        self._moved_ms = moved_ms

    def now_ms(self) -> int:
        """Return the server's time in ms since 1970."""
        return time_of_day_ms() + self._moved_ms

    def advance(self, milliseconds: int) -> None:
        """Move the clock forward."""
        self._moved_ms += milliseconds


async def serve(directory: Path, kafka: str, amqp: str, clock: Clock) -> None:
    """Serve a data directory until standard input ends."""
    config = CONFIG.listening(kafka=kafka, amqp=amqp, admin="off")
    async with running(directory, config, now_ms=clock.now_ms) as server:
        _say(f"ready {server.kafka}")
        await _obey(server, clock)


async def _obey(server: Running, clock: Clock) -> None:
    commands = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    while line := await commands.readline():
        match line.decode().split():
            case ["advance", milliseconds]:
                clock.advance(int(milliseconds))
                server.catch_up()
                await asyncio.to_thread(server.node.keep_up)
                _say("moved")
            case ["start", head, listen]:
                _say(f"started {await server.start_head(head, listen)}")
            case _:
                raise AssertionError(line)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _, directory, kafka, amqp, moved_ms = sys.argv
    uvloop.run(serve(Path(directory), kafka, amqp, Clock(int(moved_ms))))
