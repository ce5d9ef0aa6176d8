"""The raw limit: a bare uvloop process that takes the same requests and does the least with them.

    sink.py FILE                     what is produced is written to FILE, one write per read
    sink.py FILE --sync              and answered once a thread has synced the file, for all at once
    sink.py FILE --relay             and handed to the fetch that waits, for end-to-end latency
    sink.py FILE --segments DIR ...  a fetch is answered by sendfile from the segment in each DIR,
                                     which is one partition

How this works: every read goes to the file as it is, whole or not. Of a frame only its first bytes
are kept, until the frame has ended; then a canned answer is due. The answers of one read leave in
one write. Nothing is checked, indexed, assigned an offset, or remembered.
"""

import argparse
import asyncio
import os
import signal
from pathlib import Path
from struct import Struct
from typing import cast

import uvloop
from bench.kafka import canned
from bench.kafka.canned import FETCH, PRODUCE, REQUEST, Fetched, Produced

READ_BYTES = 256 * 1024
KEPT_BYTES = 256
"""Of a produce request: more than enough to answer it."""
EMPTY_AFTER_S = 0.1
_OFFSET = Struct(">q")
_LAST_DELTA = Struct(">i")


class Options(argparse.Namespace):
    """What was asked for."""

    file: Path
    sync: bool
    relay: bool
    segments: list[Path]


class Sink:
    """What the connections share: the file, and what is fetched from."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.file = os.open(options.file, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self.host, self.port = "127.0.0.1", 0
        self.stretches: dict[tuple[int, int], tuple[int, int, int]] = {}
        """By partition and offset: descriptor, position and length."""
        self.tails: dict[int, int] = {}
        self.reader: tuple[Connection, Fetched, int] | None = None
        """Who waits for what is produced next."""
        self.relayed: list[bytes] = []
        self.next_offset = 0
        self._unsynced: list[tuple[Connection, bytes]] = []
        self._syncing = False
        for partition, directory in enumerate(options.segments):
            self._load(partition, directory)

    def _load(self, partition: int, directory: Path) -> None:
        (segment,) = directory.glob("*.seg")
        descriptor = os.open(segment, os.O_RDONLY)
        for offset, following, position, length in canned.chunks(segment):
            self.stretches[partition, offset] = descriptor, position, length
            self.tails[partition] = following

    def sync(self, connection: "Connection", answers: bytes) -> None:
        """Answer once everything written so far is durable."""
        self._unsynced.append((connection, answers))
        if not self._syncing:
            self._sync_again()

    def _sync_again(self) -> None:
        self._syncing = True
        waiting, self._unsynced = self._unsynced, []

        def synced(_: "asyncio.Future[None]") -> None:
            self._syncing = False
            for connection, answers in waiting:
                connection.transport.write(answers)
            if self._unsynced:
                self._sync_again()

        loop = asyncio.get_running_loop()
        loop.run_in_executor(None, os.fdatasync, self.file).add_done_callback(synced)

    def relay(self, records: bytearray) -> int:
        """Hand a batch on to the reader; return the offset that it was given."""
        offset = self.next_offset
        _OFFSET.pack_into(records, 0, offset)
        self.next_offset += _LAST_DELTA.unpack_from(records, 23)[0] + 1
        self.relayed.append(bytes(records))
        if self.reader is not None:
            connection, fetch, correlation_id = self.reader
            connection.send_relayed(fetch, correlation_id)
        return offset


class Connection(asyncio.BufferedProtocol):
    """One client."""

    def __init__(self, sink: Sink, scratch: memoryview) -> None:
        self._sink = sink
        self._scratch = scratch
        self._kept = b""
        """The first bytes of a frame that has not ended."""
        self._left = 0
        """How much of that frame is yet to come; 0 if not even that is known."""
        self._produced: Produced | None = None
        self._out: list[bytes] = []
        self._most = 1 << 30 if sink.options.relay else KEPT_BYTES

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way to answer."""
        self.transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        """Begin the file anew, so that it does not grow from one measurement to the next."""
        if self._produced is not None:
            os.lseek(self._sink.file, 0, os.SEEK_SET)
            os.ftruncate(self._sink.file, 0)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Read into what all connections share."""
        return self._scratch

    def buffer_updated(self, nbytes: int) -> None:
        """Write what came, and answer the frames that have ended."""
        view = self._scratch[:nbytes]
        os.write(self._sink.file, view)
        while len(view):
            if self._left:
                passed = min(self._left, len(view))
                self._left -= passed
                view = view[passed:]
                if not self._left:
                    self._answer(memoryview(self._kept))
                    self._kept = b""
                continue
            view = self._begin(view)
        self._flush()

    def _begin(self, view: memoryview) -> memoryview:
        """Take what is kept of a frame, or all of it; return what follows."""
        frame = memoryview(bytearray(self._kept + view[: self._most])) if self._kept else view
        before = len(self._kept)
        if len(frame) >= REQUEST.size:
            length, key, *_ = REQUEST.unpack_from(frame)
            size = length + 4
            wanted = min(size, self._most) if key == PRODUCE else size
            if before + len(view) >= size:
                whole = frame if not before else memoryview(bytearray(self._kept + view))
                self._kept = b""
                self._answer(whole[:size])
                return view[size - before :]
            if before + len(view) >= wanted:
                self._kept = bytes(frame[:wanted])
                self._left = size - before - len(view)
                return view[:0]
        self._kept += bytes(view)
        return view[:0]

    def _answer(self, frame: memoryview) -> None:
        _, key, _, correlation_id = REQUEST.unpack_from(frame)
        if key == PRODUCE:
            produced = self._produced = self._produced or Produced(frame)
            offset = 0
            if self._sink.options.relay:
                offset = self._sink.relay(bytearray(frame[produced.records_at :]))
            self._out.append(produced.answer(frame, correlation_id, offset))
        elif key == FETCH and self._sink.options.relay:
            self.send_relayed(Fetched(frame), correlation_id)
        elif key == FETCH:
            self._flush()
            self._send_stretches(Fetched(frame), correlation_id)
        else:
            self._out.append(canned.other(frame, self._sink.host, self._sink.port))

    def _flush(self) -> None:
        if self._out:
            answers = b"".join(self._out)
            self._out.clear()
            if self._sink.options.sync and self._produced:
                self._sink.sync(self, answers)
            else:
                self.transport.write(answers)

    def send_relayed(self, fetch: Fetched, correlation_id: int) -> None:
        """Answer a fetch with what was produced since the last one, or let it wait."""
        sink = self._sink
        if not sink.relayed:
            sink.reader = self, fetch, correlation_id
            return
        records = b"".join(sink.relayed)
        sink.relayed.clear()
        sink.reader = None
        head = fetch.head(correlation_id, 1, len(records))
        partition = canned.fetched(0, sink.next_offset, len(records))
        self.transport.write(head + partition + records)

    def _send_stretches(self, fetch: Fetched, correlation_id: int, waited: bool = False) -> None:
        if self.transport.is_closing():
            return
        sink = self._sink
        nothing = (0, 0, 0)
        found = [(each, sink.stretches.get((each, at), nothing)) for each, at in fetch.offsets]
        size = sum(length for _, (_, _, length) in found)
        if not size and not waited:
            # A client asks for some partitions before it asks for all, and for one thing at a time.
            asyncio.get_running_loop().call_later(
                EMPTY_AFTER_S, self._send_stretches, fetch, correlation_id, True
            )
            return
        head = fetch.head(correlation_id, len(found), size)
        socket = self.transport.get_extra_info("socket").fileno()
        os.set_blocking(socket, True)
        for partition, (descriptor, position, length) in found:
            part = head + canned.fetched(partition, sink.tails.get(partition, 0), length)
            head = b""
            os.write(socket, part)
            sent = 0
            while sent < length:
                sent += os.sendfile(socket, descriptor, position + sent, length - sent)
        os.set_blocking(socket, False)


async def serve(options: Options) -> None:
    loop = asyncio.get_running_loop()
    sink = Sink(options)
    scratch = memoryview(bytearray(READ_BYTES))
    server = await loop.create_server(lambda: Connection(sink, scratch), sink.host, 0)
    sink.port = int(server.sockets[0].getsockname()[1])
    print(f"bootstrap.servers={sink.host}:{sink.port}", flush=True)
    told = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, told.set)
    await told.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--sync", action="store_true")
    parser.add_argument("--relay", action="store_true")
    parser.add_argument("--segments", type=Path, nargs="*", default=[])
    uvloop.run(serve(parser.parse_args(namespace=Options())))


if __name__ == "__main__":
    main()
