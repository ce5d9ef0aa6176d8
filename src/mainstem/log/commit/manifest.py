"""The manifest: a file with every partition and its recovery point, as of the last checkpoint.

Two copies of the file are kept, each replaced by a rename, so that damage to one does no harm.
Opening reads the manifest instead of listing ten thousand directories.
"""

import struct

import msgspec

from mainstem.core.checksum import crc32c
from mainstem.core.errors import DamagedLog, FormatTooNew
from mainstem.log.disk_partition import PartitionRecord
from mainstem.log.files.files import Files

FORMAT = 1
"""The format version of all files in the data directory."""
NAMES = ("manifest", "manifest.copy")

_HEAD = struct.Struct(">8sII")
_MAGIC = b"mainstem"


class Manifest(msgspec.Struct, frozen=True, array_like=True):
    """The contents of a manifest."""

    wal_number: int
    """The write-ahead file at which recovery begins; 0 if there is none yet."""
    wal_sequence: int
    """The sequence number of the first entry of that write-ahead file."""
    partitions: list[msgspec.Raw]
    """All partitions, each already encoded, as those unchanged are not encoded again."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Manifest)
_partition_decoder = msgspec.msgpack.Decoder(PartitionRecord)


def encode_partition(record: PartitionRecord) -> msgspec.Raw:
    """Encode one partition; the caller keeps the result until the partition changes."""
    return msgspec.Raw(_encoder.encode(record))


def decode_partition(encoded: msgspec.Raw) -> PartitionRecord:
    """Decode one partition."""
    try:
        return _partition_decoder.decode(encoded)
    except msgspec.DecodeError as error:
        raise DamagedLog(
            f"the manifest describes a partition in a way that cannot be read ({error}); "
            "restore it from a backup, or run mainstem repair"
        ) from None


def write(files: Files, wal_number: int, wal_sequence: int, parts: list[msgspec.Raw]) -> None:
    """Replace both copies of the manifest; durable on return."""
    body = _encoder.encode(Manifest(wal_number, wal_sequence, parts))
    data = _HEAD.pack(_MAGIC, FORMAT, _check(FORMAT, body)) + body
    for name in NAMES:
        fresh = f"{name}.new"
        file = files.open(fresh, create=True)
        file.truncate(0)
        file.pwrite(data, 0)
        file.sync()
        files.rename(fresh, name)
        # After each of the two, so that one of them is always intact on disk.
        files.sync_dir("")


def read(files: Files) -> tuple[Manifest | None, list[str]]:
    """Return the newest intact manifest (None in a new directory), and messages about damage."""
    found: list[Manifest] = []
    damage: list[str] = []
    present = [name for name in NAMES if name in files.names("")]
    for name in present:
        file = files.open(name)
        try:
            found.append(_decode(name, file.pread(file.size(), 0)))
        except DamagedLog as error:
            damage.append(str(error))
    if present and not found:
        raise DamagedLog(
            f"{'; '.join(damage)}: no whole manifest is left, so the log cannot tell what it "
            "holds; restore one from a backup, or run mainstem repair"
        )
    newest = max(found, key=lambda manifest: manifest.wal_sequence, default=None)
    return newest, damage


def _decode(name: str, data: bytes) -> Manifest:
    if len(data) < _HEAD.size:
        raise DamagedLog(f"{name}: {len(data)} bytes are too few for a manifest")
    magic, version, check = _HEAD.unpack_from(data)
    if magic != _MAGIC:
        raise DamagedLog(f"{name}: does not begin like a manifest")
    body = data[_HEAD.size :]
    # The checksum covers the version: a flipped bit must not look like a newer format.
    if _check(version, body) != check:
        raise DamagedLog(f"{name}: its checksum does not match")
    if version > FORMAT:
        raise FormatTooNew(
            f"the data directory has format {version}; this version of mainstem knows up to "
            f"{FORMAT}: open it with a newer mainstem, nothing was changed"
        )
    try:
        return _decoder.decode(body)
    except msgspec.DecodeError as error:
        raise DamagedLog(f"{name}: {error}") from None


def _check(version: int, body: bytes) -> int:
    return crc32c(body, crc32c(version.to_bytes(4, "big")))
