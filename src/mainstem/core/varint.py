"""Variable-length numbers, as record batches and Kafka's flexible requests have them."""


def unsigned_varint(number: int) -> bytes:
    """Encode a number from 0 on: seven bits in each byte, the lowest first."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
