"""A connection that speaks PostgreSQL's streaming replication, over libpq.

How this works: psycopg has no replication in its API, but its binding of libpq (``psycopg.pq``) has
all that COPY BOTH needs. The server sends WAL data (``w``) and keepalives (``k``); the connector
sends how far it has received and confirmed them (``r``). PostgreSQL, "Streaming Replication
Protocol".
"""

import select
import struct
from typing import NamedTuple

from psycopg import pq

from mainstem.connectors.errors import SourceFailed, SourceRefused
from mainstem.connectors.postgres.pgoutput import EPOCH_US

_WAL = struct.Struct(">QQq").unpack_from
_KEEPALIVE = struct.Struct(">QqB").unpack_from
_STATUS = struct.Struct(">cQQQqB").pack
_AGAIN = "; take a new snapshot: mainstem connector restart NAME --snapshot"
_UNDECODABLE = "could not map filenumber"
"""In PostgreSQL's error if it has lost track of a truncated table; trying again does not help."""


class WalData(NamedTuple):
    """A message of pgoutput, and its position in the WAL."""

    lsn: int
    data: bytes


class Keepalive(NamedTuple):
    """A message that says up to which WAL position the server has decoded."""

    wal_end: int
    asks: bool
    """Whether the server wants to hear from us at once."""


class ReplicationConnection:
    """One connection in replication mode."""

    def __init__(self, conninfo: str) -> None:
        self._connection = pq.PGconn.connect(f"{conninfo} replication=database".encode())
        if self._connection.status != pq.ConnStatus.OK:
            why = _clean(self._connection.error_message)
            self._connection.finish()
            raise SourceFailed(f"no replication connection: {why}")

    def create_slot(self, slot: str) -> tuple[int, str]:
        """Create a slot; return the WAL position where it begins and its snapshot's name."""
        found = self._rows(f'CREATE_REPLICATION_SLOT "{slot}" LOGICAL pgoutput EXPORT_SNAPSHOT')
        return parse_lsn(found[0][1]), found[0][2]

    def identify(self) -> tuple[str, str]:
        """Return the identifier of the database system, and the name of the database."""
        found = self._rows("IDENTIFY_SYSTEM")
        return found[0][0], found[0][3]

    def start(self, slot: str, publication: str, lsn: int) -> None:
        """Begin to receive the transactions that were committed after a WAL position."""
        asked = (
            f'START_REPLICATION SLOT "{slot}" LOGICAL {format_lsn(lsn)} '
            f"(proto_version '1', publication_names '\"{publication}\"')"
        )
        result = self._connection.exec_(asked.encode())
        if result.status != pq.ExecStatus.COPY_BOTH:
            raise _error("START_REPLICATION", result)

    def receive(self) -> WalData | Keepalive | None:
        """Return the next message if one has arrived, None otherwise; never waits."""
        size, data = self._connection.get_copy_data(1)
        if size == 0:
            return None
        if size < 0:
            raise self._end()
        if data[0] == 119:  # w
            return WalData(_WAL(data, 1)[0], bytes(data[25:]))
        message = bytes(data)
        if message[0] == 107:  # k
            wal_end, _, asks = _KEEPALIVE(message, 1)
            return Keepalive(wal_end, bool(asks))
        raise SourceFailed(f"the database has sent a message {message[:1]!r} in replication")

    def wait(self, timeout_s: float) -> None:
        """Wait until a message arrives, at most ``timeout_s``."""
        readable, _, _ = select.select([self._connection.socket], [], [], timeout_s)
        if readable:
            try:
                self._connection.consume_input()
            except Exception as error:
                raise SourceFailed(f"the database has closed the connection: {error}") from None

    def status(self, received: int, confirmed: int, now_us: int, *, asks: bool = False) -> None:
        """Send up to where WAL was received and is confirmed.

        With ``asks``, the server answers at once with a keepalive.
        """
        since_2000 = now_us - EPOCH_US
        message = _STATUS(b"r", max(received, confirmed), confirmed, confirmed, since_2000, asks)
        try:
            self._connection.put_copy_data(message)
            self._connection.flush()
        except Exception as error:
            raise SourceFailed(f"the database has closed the connection: {error}") from None

    def close(self) -> None:
        """Close the connection."""
        self._connection.finish()

    def _end(self) -> Exception:
        result = self._connection.get_result()
        if result is None:
            return SourceFailed("the database has ended the replication; it may be stopping")
        return _error("replication", result)

    def _rows(self, command: str) -> list[list[str]]:
        result = self._connection.exec_(command.encode())
        if result.status != pq.ExecStatus.TUPLES_OK:
            raise _error(command.partition(" ")[0], result)
        return [
            [(result.get_value(row, column) or b"").decode() for column in range(result.nfields)]
            for row in range(result.ntuples)
        ]


def parse_lsn(text: str) -> int:
    """Return a WAL position such as ``0/16B3748`` as a number."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def format_lsn(lsn: int) -> str:
    """Return a WAL position as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def _error(what: str, result: "pq.abc.PGresult") -> Exception:
    """Return the error for a failed command: SourceRefused, or SourceFailed to try again."""
    state = (result.error_field(pq.DiagnosticField.SQLSTATE) or b"").decode()
    why = _clean(result.error_message)
    if _UNDECODABLE in why:
        return SourceRefused(f"{what}: {why}: PostgreSQL cannot decode its log any more{_AGAIN}")
    # 57: stopping or starting; 55006: the slot is still used by a connection that was cut; 08, 53:
    # connections and resources.
    if not state or state[:2] in ("08", "53", "57", "XX") or state == "55006":
        return SourceFailed(f"{what}: {why}")
    return SourceRefused(f"{what}: {why}{_advice(state)}")


def _advice(state: str) -> str:
    if state == "42501":
        return "; give the user the attribute REPLICATION"
    if state in ("55000", "58P01", "42704"):
        return _AGAIN
    if state == "53400":
        return "; raise max_replication_slots, or drop slots that nobody uses"
    return ""


def _clean(message: bytes | None) -> str:
    said = " ".join((message or b"").decode("utf-8", "replace").split())
    return said or "the database has closed the connection"
