"""Transaction markers: the control batches that end a transaction in a partition.

A marker is a batch of one record with the producer's id and epoch in the header. The record's key
says whether the transaction commits or aborts (version int16, type int16: 0 abort, 1 commit), its
value which coordinator wrote it (version int16, coordinator epoch int32).
"""

from struct import Struct

from mainstem.core.batch import CONTROL, HEADER_SIZE, Buffer, read_whole, seal
from mainstem.core.errors import CorruptBatch
from mainstem.core.event import Event
from mainstem.core.record_parser import walk
from mainstem.core.records import build

_KEY = Struct(">hh")
_VALUE = Struct(">hi")
_ATTRIBUTES = Struct(">h")
_ATTRIBUTES_AT = 21
_ABORT, _COMMIT = 0, 1


def build_marker(
    producer_id: int, epoch: int, *, committed: bool, now_ms: int, coordinator_epoch: int = 0
) -> bytearray:
    """Build the marker that commits or aborts a producer's transaction in a partition."""
    event = Event(_VALUE.pack(0, coordinator_epoch), _KEY.pack(0, _COMMIT if committed else _ABORT))
    batch = build(
        (event,), now_ms=now_ms, producer_id=producer_id, producer_epoch=epoch, transactional=True
    )
    (attributes,) = _ATTRIBUTES.unpack_from(batch, _ATTRIBUTES_AT)
    _ATTRIBUTES.pack_into(batch, _ATTRIBUTES_AT, attributes | CONTROL)
    seal(batch)
    return batch


def is_commit(batch: Buffer) -> bool:
    """Tell whether a control batch commits (True) or aborts (False) its transaction."""
    header = read_whole(batch)
    if header.is_control:
        for _, _, key, *_ in walk(header, bytes(batch), HEADER_SIZE):
            if key is not None and len(key) >= _KEY.size:
                version, kind = _KEY.unpack_from(key)
                if version >= 0 and kind in (_ABORT, _COMMIT):
                    return bool(kind == _COMMIT)
    raise CorruptBatch("the batch is not the marker of a transaction")
