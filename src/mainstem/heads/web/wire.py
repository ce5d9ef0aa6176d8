"""A transport as uvicorn's protocols see it: counts bytes, and closes without losing answers.

uvicorn writes the head of a response and its body one after the other. Each write would be a system
call, so a head is held until the body comes, or until the end of this turn of the loop.
"""

import asyncio
from typing import Protocol

from mainstem.heads.transport.traffic import Traffic

_HEAD = b"HTTP/1.1 "
"""How the head of a response begins."""


class Ends(Protocol):
    """What a ``Wire`` calls on its connection: to end it, or to upgrade it."""

    @property
    def is_ending(self) -> bool:
        """Whether nothing more is sent."""

    def end(self) -> None:
        """Close once everything has been sent, and the peer has read it or had time to."""

    def upgrade(self, protocol: asyncio.Protocol) -> None:
        """Give what the peer sends to another protocol, as it asked for."""


class Wire(asyncio.Transport):
    """Passes on to a real transport; its connection decides about closing and upgrades."""

    def __init__(self, transport: asyncio.Transport, owner: Ends, traffic: Traffic) -> None:
        super().__init__()
        self._transport, self._owner, self._traffic = transport, owner, traffic
        self._loop = asyncio.get_running_loop()
        self._held = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send data, unless the connection is ending."""
        if self.is_closing():
            return
        self._traffic.bytes_out += len(data)
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held + data)
        elif isinstance(data, bytes) and data.startswith(_HEAD):
            self._held = data
            self._loop.call_soon(self.flush)
        else:
            self._transport.write(data)

    def flush(self) -> None:
        """Send what is held."""
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held)

    def is_closing(self) -> bool:
        """Tell whether nothing more is sent."""
        return self._owner.is_ending or self._transport.is_closing()

    def close(self) -> None:
        """End the connection."""
        self._owner.end()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Upgrade the connection to another protocol."""
        assert isinstance(protocol, asyncio.Protocol)
        self._owner.upgrade(protocol)

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Return what the real transport knows."""
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        """Stop reading from the peer."""
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the peer again."""
        if not self._transport.is_closing():
            self._transport.resume_reading()
