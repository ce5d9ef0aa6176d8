"""Receives lines over TCP from many senders, in one thread and bounded memory.

How this works: the listener reads every sender that has data once, up to 64 KiB, and then yields
the complete lines of all of them together. While the caller publishes these, nothing is read, so
that a slow log slows down the senders through their sockets. The only thing kept meanwhile is one
incomplete line per sender.
"""

import os
import selectors
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from mainstem.cli.arguments.units import human_bytes
from mainstem.cli.exit_codes import Refused, say
from mainstem.cli.signals import leave_closed_terminal, stop_signals

READ_BYTES = 64 << 10
MAX_SENDERS = 1000
MAX_UNFINISHED_BYTES = 64 << 20
"""Total size of all unfinished lines; over that, the sender of the longest one is cut off."""


class Sender:
    """A connection and its incomplete line."""

    def __init__(self, connected: socket.socket, peer: str) -> None:
        self.socket, self.peer = connected, peer
        self.rest = bytearray()


class LineListener:
    """A listening socket and its senders; not thread-safe."""

    def __init__(self, host: str, port: int, delimiter: bytes, max_line_bytes: int) -> None:
        self._delimiter, self._max_bytes = delimiter, max_line_bytes
        self._selector = selectors.DefaultSelector()
        self._listener = _listening(host, port)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._woken, self._wake = os.pipe()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._senders: set[Sender] = set()
        self.stopped_by: int | None = None
        """The signal that ended listening."""

    @property
    def address(self) -> str:
        """The address at which it listens, as host:port."""
        host, port = self._listener.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def close(self) -> None:
        """Stop listening and close all connections."""
        unfinished = sum(1 for each in self._senders if each.rest)
        if unfinished:
            say(f"{unfinished:,} unfinished lines of open connections were not published")
        for sender in list(self._senders):
            self._drop(sender)
        self._listener.close()
        self._selector.close()
        os.close(self._woken)
        os.close(self._wake)

    @contextmanager
    def stopping_by_signal(self) -> Iterator[None]:
        """In the block, let a signal end ``turns`` once the current lines are published."""

        def stop(number: int, frame: FrameType | None) -> None:
            leave_closed_terminal()
            self.stopped_by = number
            os.write(self._wake, b"\0")

        before = {number: signal.signal(number, stop) for number in stop_signals()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def turns(self) -> Iterator[list[bytes]]:
        """Yield the complete lines that were read from all senders at a time, until a signal."""
        while self.stopped_by is None:
            lines: list[bytes] = []
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.data, Sender):
                    lines += self._read(key.data)
            self._bound()
            if lines:
                yield lines

    def _accept(self) -> None:
        try:
            connected, address = self._listener.accept()
        except OSError as error:
            # The sender may be gone already; or no descriptor is left until another connection is
            # closed.
            say(f"a connection could not be accepted: {error.strerror or error}")
            return
        peer = f"{address[0]}:{address[1]}"
        if len(self._senders) >= MAX_SENDERS:
            say(f"{peer} was refused: {MAX_SENDERS:,} senders are connected")
            connected.close()
            return
        connected.setblocking(False)
        sender = Sender(connected, peer)
        self._senders.add(sender)
        self._selector.register(connected, selectors.EVENT_READ, sender)

    def _read(self, sender: Sender) -> list[bytes]:
        try:
            data = sender.socket.recv(READ_BYTES)
        except BlockingIOError:
            return []
        except OSError as error:
            size = len(sender.rest)
            lost = f"; {size:,} bytes of an unfinished line are lost" if size else ""
            say(f"{sender.peer}: {error.strerror or error}{lost}")
            self._drop(sender)
            return []
        if not data:
            # As at the end of a file, the last line need not end with a delimiter.
            last = [bytes(sender.rest)] if sender.rest else []
            self._drop(sender)
            return last
        searched = max(0, len(sender.rest) - len(self._delimiter) + 1)
        sender.rest += data
        lines: list[bytes] = []
        if sender.rest.find(self._delimiter, searched) >= 0:
            *lines, rest = bytes(sender.rest).split(self._delimiter)
            sender.rest = bytearray(rest)
        if len(sender.rest) > self._max_bytes or any(len(each) > self._max_bytes for each in lines):
            lines = [each for each in lines if len(each) <= self._max_bytes]
            self._cut(sender, f"a line is longer than {human_bytes(self._max_bytes)}")
        return lines

    def _bound(self) -> None:
        while sum(len(each.rest) for each in self._senders) > MAX_UNFINISHED_BYTES:
            longest = max(self._senders, key=lambda each: len(each.rest))
            self._cut(
                longest,
                f"unfinished lines take more than {human_bytes(MAX_UNFINISHED_BYTES)}, and its is "
                "the longest",
            )

    def _cut(self, sender: Sender, why: str) -> None:
        say(f"{sender.peer} was disconnected: {why}")
        self._drop(sender)

    def _drop(self, sender: Sender) -> None:
        self._senders.discard(sender)
        self._selector.unregister(sender.socket)
        sender.socket.close()


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), backlog=128)
    except OSError as error:
        # Python's message repeats the address as a tuple; leave that out.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise Refused(
            f"cannot listen at {host}:{port}: {reason or error}; choose another address with "
            "--listen (port 0 takes a free one)"
        ) from None
