"""A stream of STOMP frames as a connection cuts it."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mainstem.heads.stomp.codec import Frame, FrameScanner, Version, decode
from mainstem.heads.stomp.settings import StompSettings


class Found(NamedTuple):
    """The frames of a stream, and what is left of it."""

    frames: list[Frame]
    rest: bytes


def cut_at(data: bytes, places: Iterable[int]) -> Iterator[bytes]:
    """Cut a stream at some places."""
    begin = 0
    for place in sorted(place for place in set(places) if place < len(data)):
        yield data[begin:place]
        begin = place
    yield data[begin:]


def frames_in(
    scanner: FrameScanner, pieces: Iterable[bytes], version: Version | None = Version.V1_2
) -> Found:
    """Return the frames of a stream that comes in pieces, heart-beats left out."""
    kept, frames = b"", list[Frame]()
    for piece in pieces:
        kept += piece
        while kept and (size := scanner.size(memoryview(kept))) is not None and size <= len(kept):
            found = decode(memoryview(kept)[:size], StompSettings(), version)
            scanner.forget()
            if found is not None:
                frames.append(found)
            kept = kept[size:]
    return Found(frames, kept)
