"""Every message in every version is written as kio writes it, and read as kio reads it."""

import struct
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_entity_schema, load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.static.constants import EntityType
from tests.kafka_protocol import oracle
from tests.kafka_protocol.frames import request_frame, response_frame
from tests.kafka_protocol.values import EVERY_API, EVERY_API_IDS, values

from mainstem.kafka_protocol.api import Api
from mainstem.kafka_protocol.apis import APIS
from mainstem.kafka_protocol.classic_group_metadata import decode_blob, encode_blob
from mainstem.kafka_protocol.client_codec import decode_response
from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.messages.consumer_protocol import (
    CONSUMER_PROTOCOL_VERSION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from mainstem.kafka_protocol.server_codec import decode_request

A_FEW = settings(max_examples=4)


@pytest.mark.parametrize(("api", "version"), EVERY_API, ids=EVERY_API_IDS)
def test_messages_are_declared_as_kio_declares_them(api: Api, version: int) -> None:
    asked, answered = (
        load_request_schema(api.key, version),
        load_response_schema(api.key, version),
    )

    assert oracle.our_outline(api.request, version) == oracle.outline(asked)
    assert oracle.our_outline(api.response, version) == oracle.outline(answered)


@pytest.mark.parametrize(("api", "version"), EVERY_API, ids=EVERY_API_IDS)
@given(data=st.data())
@A_FEW
def test_requests_and_responses_are_what_kio_says(
    api: Api, version: int, data: st.DataObject
) -> None:
    asked, answered = load_request_schema(api.key, version), load_response_schema(api.key, version)
    request = data.draw(values(api.request, version, oracle.WHAT_KIO_CAN_HOLD))
    response = data.draw(values(api.response, version, oracle.WHAT_KIO_CAN_HOLD))

    header = HEADERS[asked.__header_schema__.__version__](api.key, version)
    frame = request_frame(api, version, request)
    assert frame == header + oracle.write(asked, request, version)
    assert oracle.read(asked, api.request, version, frame[len(header) :]) == request
    assert decode_request(memoryview(frame)).body == request

    header = b"\0\0\0\7" + b"\0" * answered.__header_schema__.__version__
    frame = response_frame(api, version, response)
    assert frame == header + oracle.write(answered, response, version)
    assert oracle.read(answered, api.response, version, frame[len(header) :]) == response
    assert decode_response(api, version, memoryview(frame)).body == response


@pytest.mark.parametrize("version", range(CONSUMER_PROTOCOL_VERSION + 1))
@pytest.mark.parametrize("message", [ConsumerProtocolSubscription, ConsumerProtocolAssignment])
@given(data=st.data())
@A_FEW
def test_what_members_tell_one_another_is_what_kio_says(
    message: type[Wire], version: int, data: st.DataObject
) -> None:
    name = {
        ConsumerProtocolSubscription: "consumer_protocol_subscription",
        ConsumerProtocolAssignment: "consumer_protocol_assignment",
    }[message]
    schema = load_entity_schema(name, version, EntityType.data)
    body = data.draw(values(message, version))

    blob = encode_blob(version, body)

    assert blob == version.to_bytes(2, "big") + oracle.write(schema, body, version)
    assert oracle.read(schema, message, version, blob[2:]) == body
    assert decode_blob(message, blob) == body


def test_every_api_of_kio_that_is_defined_here_is_defined_in_all_its_versions() -> None:
    for api in APIS.values():
        versions = schema_name_map[api_key_map[api.key]]

        assert (min(versions), max(versions)) == (api.first, api.last)
        assert [version for version in versions if api.flexible(version)] == [
            version for version in versions if load_request_schema(api.key, version).__flexible__
        ]


def header_v1(key: int, version: int) -> bytes:
    return struct.pack(">hhih", key, version, 7, 2) + b"me"


def header_v2(key: int, version: int) -> bytes:
    return header_v1(key, version) + b"\0"


HEADERS: dict[int, Callable[[int, int], bytes]] = {1: header_v1, 2: header_v2}
