"""The connection on which a MariaDB server sends the events of its binlog.

PyMySQL connects and authenticates. After the request for the binlog, this module reads the socket
itself, because PyMySQL cannot stop waiting for an event after some time.
"""

import contextlib
import socket
import struct
import time

from pymysql import err
from pymysql.connections import Connection

from mainstem.connectors.errors import SourceFailed

_COMMAND = 0x12
_HEARTBEAT_NS = 5_000_000_000
_SILENCE_S = 30.0
_READ_BYTES = 256 * 1024
_OK, _EOF, _ERROR = 0x00, 0xFE, 0xFF
_LARGEST = 0xFFFFFF
_PACKET = struct.Struct("<HBB")
_GTID_CAPABILITY = 4


class BinlogStream:
    """Receives the events of a binlog from a position on; closes its connection at the end."""

    def __init__(self, connection: Connection, file: str, position: int, server_id: int) -> None:
        self._connection = connection
        with connection.cursor() as cursor:
            # Without this the server sends events in the format for old replicas, without GTIDs.
            cursor.execute(f"SET @mariadb_slave_capability = {_GTID_CAPABILITY}")
            cursor.execute("SET @master_binlog_checksum = @@global.binlog_checksum")
            cursor.execute("SET @source_binlog_checksum = @@global.binlog_checksum")
            cursor.execute("SELECT @@global.binlog_checksum")
            self.has_checksums = cursor.fetchone()[0] != "NONE"
            """Whether events have checksums, until a format event says it of its file."""
            cursor.execute(f"SET @master_heartbeat_period = {_HEARTBEAT_NS}")
            cursor.execute(f"SET @source_heartbeat_period = {_HEARTBEAT_NS}")
        self._socket: socket.socket = connection._sock
        self._buffer = bytearray()
        self._at = 0
        self._heard_s = time.monotonic()
        body = bytes([_COMMAND]) + struct.pack("<IHI", position, 0, server_id) + file.encode()
        self._socket.sendall(struct.pack("<I", len(body)) + body)

    def receive(self, wait_s: float) -> bytes | None:
        """Return the next event; None if none begins to arrive within ``wait_s``.

        Raises SourceFailed if the server ends the stream.
        """
        parts: list[bytes] = []
        while True:
            packet = self._packet(wait_s if not parts else _SILENCE_S)
            if packet is None:
                return None
            parts.append(packet)
            # An event of 16 MiB or more takes several packets.
            if len(packet) < _LARGEST:
                break
        first = parts[0][0]
        if first == _OK:
            return b"".join(parts)[1:]
        if first == _EOF:
            raise SourceFailed("MariaDB has ended the stream of its binlog")
        if first == _ERROR:
            err.raise_mysql_exception(parts[0])
        raise SourceFailed(f"MariaDB has sent a packet that begins with {first}")

    def _packet(self, wait_s: float) -> bytes | None:
        deadline = time.monotonic() + wait_s
        if not self._fill(4, deadline):
            return None
        low, high, _ = _PACKET.unpack_from(self._buffer, self._at)
        size = low | high << 16
        if not self._fill(4 + size, time.monotonic() + _SILENCE_S):
            raise SourceFailed("MariaDB has sent only a part of an event")
        start = self._at + 4
        found = bytes(memoryview(self._buffer)[start : start + size])
        self._at = start + size
        return found

    def _fill(self, size: int, deadline: float) -> bool:
        """Wait until the buffer has ``size`` bytes; return False if the deadline passes."""
        while len(self._buffer) - self._at < size:
            if self._at:
                del self._buffer[: self._at]
                self._at = 0
            now = time.monotonic()
            self._socket.settimeout(max(0.001, deadline - now))
            try:
                data = self._socket.recv(_READ_BYTES)
            except TimeoutError:
                if time.monotonic() - self._heard_s > _SILENCE_S:
                    raise SourceFailed(
                        f"MariaDB has not sent anything for {_SILENCE_S:g} s"
                    ) from None
                return False
            if not data:
                raise SourceFailed("MariaDB has closed the connection")
            self._heard_s = time.monotonic()
            self._buffer += data
        return True

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(OSError, err.Error):
            self._connection._force_close()
