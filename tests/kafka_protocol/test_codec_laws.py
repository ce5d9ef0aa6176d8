"""Laws of every message in every version, for any bytes."""

import tracemalloc
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kafka_protocol.frames import request_frame, response_frame
from tests.kafka_protocol.values import EVERY_API, EVERY_API_IDS, filled

from mainstem.core.wire import ProtocolError
from mainstem.kafka_protocol.api import Api
from mainstem.kafka_protocol.client_codec import decode_response
from mainstem.kafka_protocol.server_codec import decode_request

every_api = pytest.mark.parametrize(("api", "version"), EVERY_API, ids=EVERY_API_IDS)
edges = [
    case
    for case in zip(EVERY_API, EVERY_API_IDS, strict=True)
    if case[0][1] in {case[0][0].first, case[0][0].last}
]
oldest_and_newest = pytest.mark.parametrize(
    ("api", "version"), [case for case, _ in edges], ids=[name for _, name in edges]
)


@every_api
def test_a_filled_message_survives_the_wire(api: Api, version: int) -> None:
    request, response = filled(api.request, version), filled(api.response, version)

    asked = decode_request(memoryview(request_frame(api, version, request)))
    answered = decode_response(api, version, memoryview(response_frame(api, version, response)))

    assert (asked.body, answered.body) == (request, response)
    assert (asked.header.api_key, asked.header.api_version) == (api.key, version)
    assert (asked.header.correlation_id, asked.header.client_id) == (7, "me")
    assert answered.correlation_id == 7


@every_api
def test_a_frame_cut_at_any_byte_is_refused(api: Api, version: int) -> None:
    request = memoryview(request_frame(api, version, filled(api.request, version)))
    response = memoryview(response_frame(api, version, filled(api.response, version)))

    for size in range(len(request)):
        with pytest.raises(ProtocolError):
            decode_request(request[:size])
    for size in range(len(response)):
        with pytest.raises(ProtocolError):
            decode_response(api, version, response[:size])


@every_api
def test_a_byte_too_many_is_passed_over_in_a_request_and_refused_in_a_response(
    api: Api, version: int
) -> None:
    request = request_frame(api, version, filled(api.request, version))
    response = response_frame(api, version, filled(api.response, version)) + b"\0"

    longer = decode_request(memoryview(bytes(request) + b"\0"))

    assert longer.body == decode_request(memoryview(bytes(request))).body
    with pytest.raises(ProtocolError, match="ends at byte"):
        decode_response(api, version, memoryview(response))


@every_api
def test_tags_that_nobody_knows_are_passed_over(api: Api, version: int) -> None:
    if not api.flexible(version):
        return
    body = api.request()
    plain = request_frame(api, version, body)
    head = 12  # api key, version, correlation id, client id

    unknown = b"\2\x32\3abc\x33\0"
    tagged = plain[:head] + unknown + plain[head + 1 : -1] + unknown

    assert plain[head : head + 1] == plain[-1:] == b"\0"
    assert decode_request(memoryview(tagged)).body == body


@oldest_and_newest
def test_no_number_in_a_frame_makes_it_allocate(api: Api, version: int) -> None:
    request = request_frame(api, version, filled(api.request, version))
    decode_request(memoryview(request))  # so that the decoder is compiled

    tracemalloc.start()
    try:
        for at in range(8, len(request)):
            for huge in (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\x7f\xff"):
                hostile = memoryview(request[:at] + huge + request[at + len(huge) :])
                with suppress(ProtocolError):
                    decode_request(hostile)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 100_000


@given(st.sampled_from(EVERY_API), st.data())
@settings(max_examples=400)
def test_a_frame_with_bytes_changed_is_refused_or_a_request(
    case: tuple[Api, int], data: st.DataObject
) -> None:
    api, version = case
    frame = bytearray(request_frame(api, version, filled(api.request, version)))
    places = st.tuples(st.integers(8, len(frame) - 1), st.integers(0, 255))
    for place, byte in data.draw(st.lists(places, min_size=1, max_size=4)):
        frame[place] = byte

    try:
        request = decode_request(memoryview(frame))
    except ProtocolError:
        return

    again = decode_request(memoryview(request_frame(api, version, request.body)))
    assert again.body == request.body


@given(st.sampled_from(EVERY_API), st.binary(max_size=60))
@settings(max_examples=400)
def test_random_bytes_are_refused_or_a_request(case: tuple[Api, int], noise: bytes) -> None:
    api, version = case
    header = request_frame(api, version, api.request())[:12]

    for frame in (noise, header + noise, header + b"\0" + noise):
        with suppress(ProtocolError):
            decode_request(memoryview(frame))


@given(st.sampled_from(EVERY_API), st.binary(max_size=60))
@settings(max_examples=200)
def test_random_bytes_are_refused_or_a_response(case: tuple[Api, int], noise: bytes) -> None:
    api, version = case

    with suppress(ProtocolError):
        decode_response(api, version, memoryview(b"\0\0\0\7\0" + noise))
