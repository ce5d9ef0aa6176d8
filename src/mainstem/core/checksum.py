"""CRC-32C (Castagnoli), the checksum of record batches."""

from fastcrc import crc32

crc32c = crc32.iscsi
"""``crc32c(data, initial=None)``: the checksum of bytes or a view, continuing from ``initial``."""
