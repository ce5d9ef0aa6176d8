"""The transport that uvicorn's protocols get: counts bytes, and closes without losing answers.

uvicorn writes the head of a response and its body one after the other. Each write would be a system
call, so a head is kept until the body follows, or until the end of this iteration of the event
loop.
"""

import asyncio
from typing import Protocol

from mainstem.heads.transport.traffic import Traffic

_HEAD = b"HTTP/1.1 "
"""How the head of a response begins, as uvicorn writes it."""


class Ends(Protocol):
    """The connection of a ``Wire``, which ends or upgrades it."""

    @property
    def is_ending(self) -> bool:
        """Whether nothing more is sent."""

    def end(self) -> None:
        """Close once everything has been sent, and the peer has read it or a time limit is over."""

    def upgrade(self, protocol: asyncio.Protocol) -> None:
        """Pass all further data from the peer to another protocol."""


class Wire(asyncio.Transport):
    """Forwards to the real transport; its connection decides about closing and upgrades."""

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
        """Send the head of a response that is kept."""
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held)

    def is_closing(self) -> bool:
        """Tell whether nothing more is sent."""
        return self._owner.is_ending or self._transport.is_closing()

    def close(self) -> None:
        """End the connection, after everything was sent."""
        self._owner.end()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Upgrade the connection to another protocol."""
        assert isinstance(protocol, asyncio.Protocol)
        self._owner.upgrade(protocol)

    def get_extra_info(self, name: str, default: object = None) -> object:
        """Return the value of the real transport."""
        return self._transport.get_extra_info(name, default)

    def pause_reading(self) -> None:
        """Stop reading from the peer."""
        if not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read from the peer again."""
        if not self._transport.is_closing():
            self._transport.resume_reading()
