"""A client of Server-Sent Events that reads as the HTML standard says, over httpx."""

import contextlib
from collections.abc import AsyncIterator, Mapping

import httpx
import msgspec

ACCEPT = {"accept": "text/event-stream"}


class Message(msgspec.Struct, frozen=True):
    """A message of a stream, with the id that holds behind it."""

    event: str
    data: str
    id: str

    @property
    def value(self) -> object:
        """The value of the event of the topic that the message is."""
        return msgspec.json.decode(self.data)["value"]


class Stream:
    """A stream that is read message by message."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.id = ""
        """The id to resume from."""
        self._lines = response.aiter_lines()

    async def blocks(self) -> AsyncIterator[Message]:
        """Yield every block, also those without data, which only set the id."""
        event, data = "message", list[str]()
        async for line in self._lines:
            name, _, value = line.partition(":")
            match name:
                case "":
                    if not line:
                        yield Message(event, "\n".join(data), self.id)
                        event, data = "message", []
                case "event":
                    event = value.removeprefix(" ")
                case "data":
                    data.append(value.removeprefix(" "))
                case "id":
                    self.id = value.removeprefix(" ")

    async def messages(self) -> AsyncIterator[Message]:
        """Yield the messages."""
        async for block in self.blocks():
            if block.data:
                yield block

    async def take(self, count: int) -> list[Message]:
        """Return the next messages."""
        found: list[Message] = []
        async for message in self.messages():
            found.append(message)
            if len(found) == count:
                break
        return found

    async def begun(self) -> str:
        """Wait for the block with which a stream begins; return its id."""
        async for block in self.blocks():
            return block.id
        raise AssertionError("the stream is over")


@contextlib.asynccontextmanager
async def following(
    client: httpx.AsyncClient, path: str, headers: Mapping[str, str] = {}
) -> AsyncIterator[Stream]:
    """Follow a topic until the block ends."""
    async with client.stream("GET", path, headers={**ACCEPT, **headers}) as response:
        assert response.status_code == 200, await response.aread()
        yield Stream(response)
