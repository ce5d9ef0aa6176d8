"""The functions that are fuzzed: each raises only if our code is wrong."""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

from tests.heads.amqp091.talking import HANDSHAKE, Seen, Talk
from tests.heads.contexts import kafka_service

from mainstem.broker.broker import Broker
from mainstem.core import compression
from mainstem.core.batch import HEADER_SIZE, LENGTH_BEFORE, read_whole, seal
from mainstem.core.errors import CorruptBatch, MainstemError
from mainstem.core.records import check_records, events, keys, retain
from mainstem.core.topic_settings import TopicSettings
from mainstem.heads.amqp091 import methods
from mainstem.heads.amqp091.codec import method_frame
from mainstem.heads.amqp091.errors import AmqpError
from mainstem.heads.amqp091.messages import Publish
from mainstem.heads.amqp091.properties import decode_properties, encode_properties
from mainstem.heads.amqp091.settings import AmqpSettings
from mainstem.heads.conversation import Answer, Later, Piece, ProtocolError
from mainstem.heads.kafka.head import KafkaConversation
from mainstem.heads.kafka.settings import KafkaSettings
from mainstem.kafka_protocol.apis import APIS
from mainstem.kafka_protocol.client_codec import decode_response, encode_request
from mainstem.kafka_protocol.server_codec import decode_request
from mainstem.log.memory import MemoryLog

TOPIC = "tt"
"""Exists, with partitions 0 to 7, in the broker that conversations are held with."""
NOW_MS = 1_700_000_000_000
MAX_UNPACKED = 4096


def requests(data: bytes) -> None:
    """A frame is a request, which can be said again in no more bytes, or refused."""
    try:
        request = decode_request(memoryview(data))
    except ProtocolError:
        return
    header = request.header
    again = joined(
        encode_request(
            APIS[header.api_key],
            header.api_version,
            header.correlation_id,
            header.client_id,
            request.body,
        )
    )[4:]
    assert len(again) <= len(data), "more was read than there is"
    assert decode_request(memoryview(again)) == request
    with suppress(ProtocolError):
        decode_request(memoryview(again)[:-1])
        raise AssertionError("what is cut off was accepted")


def records(data: bytes) -> None:
    """A batch with a good checksum has the events that its header counts, or is refused."""
    batch = bytearray(data[:HEADER_SIZE].ljust(HEADER_SIZE, b"\0") + data[HEADER_SIZE:])
    batch[0] &= 0x3F  # The offset is the log's, and never negative or near the end of numbers.
    batch[8:12] = (len(batch) - LENGTH_BEFORE).to_bytes(4, "big")
    batch[16] = 2
    seal(batch)
    try:
        header = read_whole(batch)
        found = list(events(batch, max_bytes=MAX_UNPACKED))
    except CorruptBatch:
        _refused_as_well(batch)
        return
    offsets = [event.offset for event in found]
    assert offsets == sorted(set(offsets))
    assert all(0 <= offset - header.base_offset <= header.last_offset_delta for offset in offsets)
    if not header.is_control:
        assert len(found) == header.count
        assert [each[0] for each in keys(batch, max_bytes=MAX_UNPACKED)] == offsets
        _thin(batch, offsets)


def _refused_as_well(batch: bytearray) -> None:
    try:
        header = read_whole(batch)
        check_records(batch, max_bytes=MAX_UNPACKED)
    except MainstemError:
        return
    assert header.is_control, "what cannot be read was accepted"


def _thin(batch: bytearray, offsets: list[int]) -> None:
    """Take every second event out, as compaction would, and read what is left."""
    kept = retain(batch, lambda offset, *_: offset % 2 == 0, max_bytes=MAX_UNPACKED)
    left = [] if kept is None else [each.offset for each in events(kept, max_bytes=MAX_UNPACKED)]
    assert left == [offset for offset in offsets if offset % 2 == 0]


def unpacking(data: bytes) -> None:
    """Compressed bytes unpack to no more than is allowed, or are refused."""
    try:
        plain = compression.decompress(data[0] % 6 if data else 0, data[1:], MAX_UNPACKED)
    except CorruptBatch:
        return
    assert len(plain) <= MAX_UNPACKED


def conversations(data: bytes) -> None:
    """Whatever a peer sends is answered in its own protocol, or is the end of the conversation."""
    asyncio.run(_converse(data))


async def _converse(data: bytes) -> None:
    broker = Broker(MemoryLog(now_ms=lambda: NOW_MS), lambda: NOW_MS, new_id=lambda: "0" * 32)
    broker.create_topic(TOPIC, TopicSettings(partitions=8))
    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: failures.append(context.get("exception") or context["message"])
    )
    settings = KafkaSettings(max_frame_bytes=100_000)
    service = kafka_service(broker, lambda: NOW_MS, settings)
    conversation = KafkaConversation(service, "peer")
    # Where it was received it may be changed in place, as appending does.
    view = memoryview(bytearray(data))
    waiting: list[tuple[memoryview, Later]] = []
    try:
        while (size := conversation.frame_size(view)) is not None and size <= len(view):
            answer = conversation.handle(view[:size])
            if isinstance(answer, Later):
                waiting.append((view[:size], answer))
            else:
                _check_answer(view[:size], answer)
            view = view[size:]
    except ProtocolError:
        pass
    for _ in range(3):
        await asyncio.sleep(0)
    for frame, later in waiting:
        assert not later.failed, later.failed
        if later.answer is not None:
            _check_answer(frame, later.take())
    conversation.close()
    assert not failures, failures


def _check_answer(frame: memoryview, answer: Answer) -> None:
    """See that what is sent is what the version that was asked in calls a response."""
    said = joined(answer)
    if not said:
        return
    assert int.from_bytes(said[:4], "big") == len(said) - 4
    key, version = (int.from_bytes(frame[at : at + 2], "big", signed=True) for at in (4, 6))
    if key == 18:
        # A version that is too new is answered in version 0.
        version = version if 0 <= version <= 4 else 0
    decode_response(APIS[key], version, memoryview(said)[4:])


AMQP_OPENED = b"".join((HANDSHAKE, *(method_frame(each, methods.ChannelOpen()) for each in (1, 2))))
"""A connection with two channels, for what does not begin with a protocol header."""


def amqp(data: bytes) -> None:
    """AMQP frames are requests or refused, the same one by one and many at once."""
    stream = data if data.startswith(b"AMQP") else AMQP_OPENED + data
    settings = AmqpSettings(max_message_bytes=1024, max_unfinished_bytes=2048)
    talk = Talk(settings)
    found = talk.feed([stream])
    # Not by ==: what is not a number is not equal to itself.
    assert repr(found) == repr(Talk(settings, runs=False).feed([stream]))
    assert talk.session._unfinished <= settings.max_unfinished_bytes
    for each in found:
        _check_amqp(each)


def _check_amqp(seen: Seen) -> None:
    """See that what was read can be written, and is read again as the same."""
    match seen:
        case (int(), methods.Method() as method):
            again = methods.decode_method(methods.encode_method(method))
            assert repr(again) == repr(method)
        case (int(), Publish() as message):
            try:
                properties = decode_properties(message.properties)
            except AmqpError:
                return
            assert repr(decode_properties(encode_properties(properties))) == repr(properties)


def joined(pieces: Iterable[Piece]) -> bytes:
    """Return an answer in one piece."""
    return b"".join(
        piece if isinstance(piece, bytes | bytearray | memoryview) else piece.tobytes()
        for piece in pieces
    )


TARGETS: dict[str, Callable[[bytes], None]] = {
    "requests": requests,
    "records": records,
    "unpacking": unpacking,
    "conversations": conversations,
    "amqp": amqp,
}
