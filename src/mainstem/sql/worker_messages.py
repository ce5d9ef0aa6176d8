"""Messages between a query's process and its worker, over one socket.

How this works: the query's process tells the worker to parse or to run a query. While the query
runs, the worker leads: it requests the batches of its scans, one by one, and sends batches of the
result. A frame is a message and, for some, a blob of Arrow IPC bytes. A process that does not
receive stops the other one that sends; there is no other backpressure.
"""

import socket
from struct import Struct
from typing import Literal

import msgspec

_HEAD = Struct(">IQ")
NO_BLOB = memoryview(b"")
SPARE_BYTES = 1 << 30
"""Memory beside DuckDB's own: Python, Arrow, batches under way, stacks of threads."""


WITHOUT_ARENAS = {"ARROW_DEFAULT_MEMORY_POOL": "jemalloc"}
"""Environment of processes with limited memory: by default Arrow reserves 1 GiB of it at once."""


class Parse(msgspec.Struct, frozen=True, tag=True):
    """To the worker: parse this query."""

    sql: str


class Parsed(msgspec.Struct, frozen=True, tag=True):
    """From the worker: what a query refers to."""

    tables: list[list[str]]
    """Every table as written, in its parts: ``["sample", "views"]``."""
    words: list[str]
    """All names and texts in the query, in lower case: every column that it uses is among them."""
    star: bool
    """Whether the query uses all columns of a table."""
    dotted: list[str]
    """Names that are followed by a dot and another name, in lower case."""
    appends: bool
    """Whether new events only add rows to the result."""


class Span(msgspec.Struct, frozen=True):
    """A range of offsets in one partition; ``end`` is the first offset after it."""

    partition: int
    start: int
    end: int


class View(msgspec.Struct, frozen=True):
    """A table of the query: what its scans may read, and the SELECT that makes its columns."""

    path: list[str]
    select: str
    """``{scan}`` stands for the name of the scan."""
    schema: bytes
    """The Arrow schema of the scan."""
    spans: list[Span]


class Run(msgspec.Struct, frozen=True, tag=True):
    """To the worker: evaluate a query."""

    sql: str
    views: list[View]


class Scan(msgspec.Struct, frozen=True, tag=True):
    """From the worker: a scan begins; it needs these columns and offset ranges of a view."""

    number: int
    view: int
    columns: list[str]
    spans: list[Span]
    from_ms: int | None
    """No event before this time is needed."""


class Next(msgspec.Struct, frozen=True, tag=True):
    """From the worker: send the next batch of a scan."""

    number: int


class Batch(msgspec.Struct, frozen=True, tag=True):
    """To the worker: a batch of a scan, in the blob."""


class End(msgspec.Struct, frozen=True, tag=True):
    """To the worker: the scan has no more batches."""


class Broken(msgspec.Struct, frozen=True, tag=True):
    """To the worker: a scan has failed."""


class Columns(msgspec.Struct, frozen=True, tag=True):
    """From the worker: the schema of the result, in the blob."""


class Rows(msgspec.Struct, frozen=True, tag=True):
    """From the worker: a batch of the result, in the blob."""


class Done(msgspec.Struct, frozen=True, tag=True):
    """From the worker: the result is complete."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The query failed; from the worker, or to it if a scan has failed."""

    kind: Literal["invalid", "failed", "memory", "misfit"]
    text: str


Message = Parse | Parsed | Run | Scan | Next | Batch | End | Broken | Columns | Rows | Done | Failed
_decoder = msgspec.msgpack.Decoder(Message)


class Channel:
    """Sends and receives messages over a socket; not thread-safe."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected

    def send(self, message: Message, blob: memoryview = NO_BLOB) -> None:
        """Send a message; blocks while the other process does not receive."""
        encoded = msgspec.msgpack.encode(message)
        self._socket.sendall(_HEAD.pack(len(encoded), len(blob)) + encoded)
        if blob:
            self._socket.sendall(blob)

    def receive(self) -> tuple[Message, memoryview]:
        """Wait for a message; raises EOFError if the other process has ended."""
        size, blob_size = _HEAD.unpack(self._exactly(_HEAD.size))
        message: Message = _decoder.decode(self._exactly(size))
        return message, self._exactly(blob_size)

    def _exactly(self, size: int) -> memoryview:
        view = memoryview(bytearray(size))
        position = 0
        while position < size:
            count = self._socket.recv_into(view[position:])
            if not count:
                raise EOFError
            position += count
        return view
