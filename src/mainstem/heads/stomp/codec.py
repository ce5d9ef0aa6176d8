"""STOMP 1.0, 1.1 and 1.2 frames: bytes to frames and back.

Reference: https://stomp.github.io/stomp-specification-1.2.html (sections in brackets below), and
the specifications of 1.1 and 1.0 where they differ.

How this works: the size of a frame is known once its headers are complete (content-length), or once
its NUL has arrived. ``FrameScanner`` is called again as more of a frame arrives, remembers up to
where it has searched, and refuses a frame over a limit before it is complete. A line end or a NUL
between frames is treated as a frame by itself: a heart-beat.
"""

import re
from collections.abc import Iterable
from enum import StrEnum

import msgspec

from mainstem.heads.conversation import ProtocolError
from mainstem.heads.stomp.settings import StompSettings

MAX_COMMAND_BYTES = 32
HEART_BEAT = b"\n"

_NOISE = re.compile(rb"[\r\n\0]+")
_COMMAND = re.compile(rb"[A-Z]+\Z")
_COMMAND_END = re.compile(rb"\n")
_HEAD_END = re.compile(rb"\n\r?\n|\0")
_NUL = re.compile(rb"\0")
_CONTENT_LENGTH = re.compile(rb"\ncontent-length:[ \t]*([^\r\n]*)")
_ESCAPED = re.compile(r"\\(.?)", re.DOTALL)
_PLAIN = {"n": "\n", "r": "\r", "c": ":", "\\": "\\"}
_DIGITS = 18


class Version(StrEnum):
    """A version of the protocol."""

    V1_0 = "1.0"
    V1_1 = "1.1"
    V1_2 = "1.2"


class Frame(msgspec.Struct, frozen=True, gc=False):
    """A command, its headers and its body."""

    command: str
    headers: dict[str, str]
    body: bytes = b""


class FrameScanner:
    """Finds the end of a frame.

    ``size`` is called again when more bytes have arrived, each time with the whole frame so far.
    """

    def __init__(self, limits: StompSettings) -> None:
        self._limits = limits
        self.forget()

    def forget(self) -> None:
        """Forget the last frame, because another one begins."""
        self.looked = 0
        self._head_end = 0
        self._size = 0

    def size(self, view: memoryview) -> int | None:
        """Return the frame's size, None if more bytes are needed; raises ProtocolError."""
        if not self.looked and (noise := _NOISE.match(view)) is not None:
            return noise.end()
        if not self._head_end and not self._find_head_end(view):
            return None
        if not self._size:
            self._find_body_end(view)
        self.looked = len(view)
        if (self._size or len(view)) > self._limits.max_frame_bytes:
            raise ProtocolError(
                f"a frame of more than {self._limits.max_frame_bytes} bytes (stomp.max_frame_bytes)"
            )
        return self._size or None

    def _find_head_end(self, view: memoryview) -> bool:
        if self.looked <= MAX_COMMAND_BYTES:
            _check_command(view)
        found = _HEAD_END.search(view, max(0, self.looked - 2))
        so_far = len(view) if found is None else found.end()
        if so_far > self._limits.max_header_bytes:
            raise ProtocolError(
                f"headers of more than {self._limits.max_header_bytes} bytes "
                "(stomp.max_header_bytes)"
            )
        if found is None:
            self.looked = len(view)
            return False
        if view[found.start()] == 0:
            raise ProtocolError("a frame ends before the blank line that follows its headers")
        self._head_end = self.looked = found.end()
        length = _CONTENT_LENGTH.search(view, 0, self._head_end)
        if length is not None:
            self._size = self._head_end + _content_length(length[1]) + 1
        return True

    def _find_body_end(self, view: memoryview) -> None:
        found = _NUL.search(view, max(self._head_end, self.looked))
        if found is not None:
            self._size = found.end()


def decode(frame: memoryview, limits: StompSettings, version: Version | None) -> Frame | None:
    """Decode a frame; return None for a heart-beat. Raises ProtocolError.

    ``version`` is None until one is negotiated. Escapes in headers are decoded from version 1.1
    on; so neither in version 1.0 nor in CONNECT [Value Encoding].
    """
    data = bytes(frame)
    end = _HEAD_END.search(data)
    if end is None or _NOISE.match(data) is not None:
        return None
    if data[-1]:
        raise ProtocolError("the body is not followed by NUL where content-length says it ends")
    try:
        head = data[: end.start()].decode()
    except UnicodeDecodeError as error:
        raise ProtocolError(f"the headers are not UTF-8: {error.reason}") from None
    command, *lines = head.split("\n")
    if len(lines) > limits.max_headers:
        raise ProtocolError(f"more than {limits.max_headers} headers (stomp.max_headers)")
    escapes = version not in (None, Version.V1_0)
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.removesuffix("\r").partition(":")
        if not colon:
            raise ProtocolError(f"a header without a colon: {line!r:.100}")
        if escapes:
            if "\\" in line:
                name, value = _unescape(name), _unescape(value)
        else:
            # 1.0 does not define spaces around the colon, and its clients write "name: value".
            name, value = name.strip(), value.strip()
        # "only the first header entry SHOULD be used" [Repeated Header Entries]
        headers.setdefault(name, value)
    return Frame(command.removesuffix("\r"), headers, data[end.end() : -1])


def encode(
    command: str,
    headers: Iterable[tuple[str, str]],
    body: bytes = b"",
    version: Version | None = None,
) -> bytes:
    """Encode a frame; ``version`` is None for CONNECTED, and before one is negotiated."""
    escape = _ESCAPE[version or Version.V1_0]
    lines = [command]
    for name, value in headers:
        lines.append(f"{name.translate(escape)}:{value.translate(escape)}")
    if body:
        lines.append(f"content-length:{len(body)}")
    lines.append("\n")
    return "\n".join(lines).encode() + body + b"\0"


_1_1 = {"\\": "\\\\", "\n": "\\n", ":": "\\c", "\0": "\ufffd"}
_ESCAPE = {
    # 1.0 has no escapes, and a raw line end would end the header.
    Version.V1_0: str.maketrans({"\n": "\\n", "\r": "\\r", "\0": "\ufffd"}),
    Version.V1_1: str.maketrans(_1_1),
    Version.V1_2: str.maketrans(_1_1 | {"\r": "\\r"}),
}


def _check_command(view: memoryview) -> None:
    """Raise ProtocolError as early as possible for bytes that are not a STOMP command."""
    end = _COMMAND_END.search(view, 0, MAX_COMMAND_BYTES)
    command = bytes(view[: MAX_COMMAND_BYTES if end is None else end.start()]).removesuffix(b"\r")
    if (command and not _COMMAND.match(command)) or (end is None and len(view) > MAX_COMMAND_BYTES):
        raise ProtocolError(f"{command!r:.100} is not a command of STOMP")


def _content_length(digits: bytes) -> int:
    text = digits.strip()
    if not text.isdigit() or len(text) > _DIGITS:
        raise ProtocolError(f"content-length must be a whole number, not {text!r:.100}")
    return int(text)


def _unescape(text: str) -> str:
    return _ESCAPED.sub(_unescape_one, text)


def _unescape_one(found: re.Match[str]) -> str:
    plain = _PLAIN.get(found[1])
    if plain is None:
        # "Undefined escape sequences such as \\t MUST be treated as a fatal protocol error"
        # [Value Encoding]
        raise ProtocolError(f"{found[0]!r} is no escape: \\n, \\r, \\c and \\\\ are")
    return plain
