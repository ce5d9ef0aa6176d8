"""Escapes control characters in text that is printed to a terminal.

A key or value can contain escape sequences that retitle the window, hide output, or make the
terminal send input as if it were typed. So control characters in events are escaped on a terminal,
as ``ls`` does with file names; in a pipe, the data is unchanged.
"""

_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))
# Characters that change the direction of text can make it read differently.
_TURNS = (0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_INLINE = {code: f"\\x{code:02x}" for code in _CONTROLS} | {code: f"\\u{code:x}" for code in _TURNS}
_LINES = {code: text for code, text in _INLINE.items() if chr(code) not in "\n\t"}
_JSON = {code: f"\\u{code:04x}" for code in (*_CONTROLS, *_TURNS) if chr(code) != "\n"}


def shown(text: str) -> str:
    """Escape all control characters, including line ends and tabs."""
    return text.translate(_INLINE)


def shown_bytes(data: bytes) -> bytes:
    """Escape control characters and bytes that are not UTF-8, but not line ends and tabs."""
    return data.decode("utf-8", "backslashreplace").translate(_LINES).encode()


def shown_json(data: bytes) -> bytes:
    r"""Escape control characters in JSON text as ``\u0000`` etc."""
    return data.decode().translate(_JSON).encode()
