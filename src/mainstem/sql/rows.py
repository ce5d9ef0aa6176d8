"""Converts rows of Arrow batches to Python values, and to JSON."""

import base64
from collections.abc import Iterable, Iterator

import msgspec
import pyarrow as pa

_AT_ONCE = 1000


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[object, ...]]:
    """Yield each row of the batches as a tuple of Python values."""
    for batch in batches:
        for first in range(0, batch.num_rows, _AT_ONCE):
            part = batch.slice(first, _AT_ONCE)
            yield from zip(*(column.to_pylist() for column in part.columns), strict=True)


def text_of(value: bytes) -> str:
    """Return bytes as text, or as base64 if they are not UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()


to_json = msgspec.json.Encoder(enc_hook=str, decimal_format="number").encode
"""Encodes rows and values; large sums are numbers, bytes are base64."""
