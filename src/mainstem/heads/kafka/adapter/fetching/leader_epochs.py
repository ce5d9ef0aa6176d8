"""Leader epochs: checks the epoch that a client sends, and finds where an epoch ends.

How this works: every stored batch carries the epoch in which it was written, and epochs only grow.
So a binary search over batch headers finds the first batch of a later epoch.
"""

from mainstem.broker.door import Door
from mainstem.core.batch import BatchHeader, read_header
from mainstem.kafka_protocol.error_codes import Code


def compare(asked: int, epoch: int) -> Code:
    """Return the error code if ``asked`` is not the current leader epoch, else NONE.

    A client that does not know the epoch sends one below 0, which is accepted.
    """
    if asked < 0 or asked == epoch:
        return Code.NONE
    return Code.FENCED_LEADER_EPOCH if asked < epoch else Code.UNKNOWN_LEADER_EPOCH


def end_of(broker: Door, topic: str, number: int, epoch: int) -> tuple[int, int]:
    """Return the last epoch up to this one, and its end offset, where later epochs begin."""
    bounds = broker.bounds(topic, number)
    low, high = bounds.start, bounds.tail
    found = epoch
    while low < high:
        header = _header(broker, topic, number, (low + high) // 2)
        if header is None or header.epoch > epoch:
            high = (low + high) // 2
        else:
            found, low = header.epoch, header.last_offset + 1
    return found, low


def _header(broker: Door, topic: str, number: int, offset: int) -> BatchHeader | None:
    data = broker.read(topic, number, offset, 1)
    return read_header(data.tobytes()) if data.length else None
