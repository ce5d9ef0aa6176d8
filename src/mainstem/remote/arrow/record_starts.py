"""Finds where the records of a batch begin.

How this works: a record begins with its length, so each start follows from the one before: a loop
in Python. But consecutive records often have the same length. So numpy looks at many positions at
once, each one record length after the previous: as far as all of them hold the same length, they
are record starts.
"""

from array import array

import numpy as np
import numpy.typing as npt

from mainstem.core.batch import BatchHeader
from mainstem.core.errors import CorruptBatch

_ONE_BY_ONE, _ALIKE = 16, 8
"""Number of records parsed one by one before looking for a run of equal lengths; and number of
equal lengths that make such a look worthwhile.
"""
_AHEAD, _FURTHER = 256, 4
_LONGEST_LENGTH = 5


def add_starts(header: BatchHeader, data: bytes, at: int, stop: int, found: "array[int]") -> None:
    """Add to ``found`` where each record between ``at`` and ``stop`` begins.

    Raises CorruptBatch if the last record does not end at ``stop``.
    """
    raw = np.frombuffer(data, np.uint8)
    left = header.count
    while left > 0:
        steps = min(left, _ONE_BY_ONE)
        left -= steps
        try:
            at = _step(data, at, steps, found)
        except IndexError:
            raise damaged(header) from None
        length = at - found[-1]
        if left > _ALIKE and at - found[-_ALIKE] == length * _ALIKE:
            run = _run(raw, at, length, min(left, (stop - at) // length))
            found.frombytes(np.arange(at, at + run * length, length, dtype=np.int64).tobytes())
            at += run * length
            left -= run
    if at != stop:
        raise damaged(header)


def _step(data: bytes, at: int, steps: int, found: "array[int]") -> int:
    """Step over records by their lengths; raises IndexError past the end or if invalid."""
    add = found.append
    for _ in range(steps):
        add(at)
        size = data[at]
        if size < 128:
            at += 1 + (size >> 1)
            continue
        more = data[at + 1]
        if more < 128:
            at += 2 + ((size & 127 | more << 7) >> 1)
            continue
        width = _width(data, at)
        size = sum((data[at + index] & 127) << 7 * index for index in range(width))
        at += width + (size >> 1)
    return at


def _width(data: bytes, at: int) -> int:
    """Return the number of bytes of the varint at a position."""
    for width in range(1, _LONGEST_LENGTH + 1):
        if data[at + width - 1] < 128:
            return width
    raise IndexError(at)


def _run(raw: npt.NDArray[np.uint8], at: int, length: int, most: int) -> int:
    """Return how many of the following records are as long as the one that ends at ``at``."""
    before = raw[at - length : at]
    width = int(np.argmax(before < 128)) + 1
    done, ahead = 0, _AHEAD
    while done < most:
        count = min(ahead, most - done)
        begin = at + done * length
        table = raw[begin : begin + count * length].reshape(count, length)
        differs = table[:, 0] != before[0]
        for index in range(1, width):
            differs |= table[:, index] != before[index]
        if differs.any():
            return done + int(differs.argmax())
        done, ahead = done + count, ahead * _FURTHER
    return done


def damaged(header: BatchHeader) -> CorruptBatch:
    """Return the error for a batch whose record lengths do not fit its size."""
    return CorruptBatch(
        f"the {header.count} records of the batch at offset {header.base_offset} are damaged"
    )
