"""STOMP clients over raw sockets, and a well-behaved one to compare with."""

from collections.abc import Iterator
from typing import Self

from tests.heads.server_process import connected

from mainstem.heads.stomp.codec import Frame, FrameScanner, Version, decode, encode
from mainstem.heads.stomp.settings import StompSettings

WIDE = StompSettings(max_frame_bytes=2**31, max_headers=1_000, max_header_bytes=2**20)


class Peer:
    """A connection that sends any bytes, and reads frames."""

    def __init__(self, address: str, *, receive_buffer: int = 0) -> None:
        self.socket = connected(address, receive_buffer)
        self._scanner = FrameScanner(WIDE)
        self._received = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def connect(self) -> Self:
        """Log in."""
        self.say("CONNECT", accept_version="1.2", host="/")
        assert self.next().command == "CONNECTED"
        return self

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def say(self, command: str, body: bytes = b"", /, **headers: str) -> None:
        """Send a frame; headers with _ for -."""
        self.send(frame(command, body, **headers))

    def next(self) -> Frame:
        """Return the next frame, skipping heart-beats; raises EOFError if the server closes."""
        while True:
            view = memoryview(self._received)
            size = self._scanner.size(view) if view else None
            if size is None or size > len(view):
                data = self.socket.recv(1 << 20)
                if not data:
                    raise EOFError
                self._received += data
                continue
            found = decode(view[:size], WIDE, Version.V1_2)
            self._scanner.forget()
            self._received = self._received[size:]
            if found is not None:
                return found

    def last_words(self) -> list[Frame]:
        """Return the frames received until the server closes."""
        return list(self._until_the_end())

    def _until_the_end(self) -> Iterator[Frame]:
        while True:
            try:
                yield self.next()
            except (EOFError, ConnectionError):
                return


def frame(command: str, body: bytes = b"", /, **headers: str) -> bytes:
    """Return a frame; headers with _ for -."""
    named = [(name.rstrip("_").replace("_", "-"), value) for name, value in headers.items()]
    return encode(command, named, body, Version.V1_2)


class Healthy:
    """A well-behaved client: its messages are confirmed and delivered back to it."""

    def __init__(self, address: str) -> None:
        self._peer = Peer(address).connect()
        self._sent = 0
        self.queue = "/queue/healthy.{}.{}".format(*self._peer.socket.getsockname())
        self._peer.say("SUBSCRIBE", id="s", destination=self.queue, ack="client")
        self.check()

    def check(self) -> None:
        """Send, and receive."""
        body = b"%d" % self._sent
        self._peer.say("SEND", body, destination=self.queue, receipt=str(self._sent))
        told = {each.command: each for each in (self._peer.next(), self._peer.next())}
        assert told["RECEIPT"].headers["receipt-id"] == str(self._sent)
        assert told["MESSAGE"].body == body
        self._peer.say("ACK", id=told["MESSAGE"].headers["ack"])
        self._sent += 1

    def close(self) -> None:
        self._peer.socket.close()
