"""Kafka for the laws of every head."""

from hypothesis import strategies as st
from tests.heads.kafka.raw_peers import fetching, production, request
from tests.heads.started import TOPIC
from tests.kafka_protocol.frames import request_frame, response_frame
from tests.kafka_protocol.values import EVERY_API, values
from tests.laws.heads.examples import Examples, Law, Outcomes
from tests.laws.heads.values import HOUR_MS

from mainstem.broker.broker import Broker
from mainstem.core.event import Event
from mainstem.core.records import build
from mainstem.heads.head import RunningHead
from mainstem.heads.kafka.settings import KafkaSettings
from mainstem.kafka_protocol.api import Api
from mainstem.kafka_protocol.client_codec import decode_response
from mainstem.kafka_protocol.error_codes import Code
from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.messages.connection import API_VERSIONS, ApiVersionsRequest
from mainstem.kafka_protocol.messages.fetch import FETCH
from mainstem.kafka_protocol.messages.produce import PRODUCE, ProduceResponse
from mainstem.kafka_protocol.messages.share_fetch import (
    SHARE_FETCH,
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchTopic,
)
from mainstem.kafka_protocol.messages.share_groups import (
    SHARE_GROUP_HEARTBEAT,
    ShareGroupHeartbeatRequest,
)
from mainstem.kafka_protocol.server_codec import decode_request

_BATCH = bytes(build([Event(b"value", b"key")], now_ms=1))
_PRODUCE = request(PRODUCE, 9, production(TOPIC, _BATCH))


def _told(heard: bytes, _: RunningHead) -> object:
    if not heard:
        return None
    body = decode_response(PRODUCE, 9, memoryview(heard)[4:]).body
    assert isinstance(body, ProduceResponse)
    return Code(body.responses[0].partition_responses[0].error_code)


def _messages(case: tuple[Api, int]) -> st.SearchStrategy[object]:
    api, version = case
    return st.tuples(st.just(case), values(api.request, version), values(api.response, version))


def _there_and_back(message: tuple[tuple[Api, int], Wire, Wire]) -> object:
    (api, version), asked, answered = message
    request_body = decode_request(memoryview(request_frame(api, version, asked))).body
    frame = memoryview(response_frame(api, version, answered))
    return (api, version), request_body, decode_response(api, version, frame).body


def _take(broker: Broker) -> bytes:
    topic_id = bytes.fromhex(broker.topic(TOPIC).id)
    beat = ShareGroupHeartbeatRequest(TOPIC, "member", 0, None, (TOPIC,))
    fetch = ShareFetchRequest(
        group_id=TOPIC,
        member_id="member",
        max_wait_ms=HOUR_MS,
        min_bytes=1,
        max_bytes=1 << 20,
        max_records=100,
        topics=[ShareFetchTopic(topic_id, [ShareFetchPartition(0)])],
    )
    return request(SHARE_GROUP_HEARTBEAT, 1, beat) + request(SHARE_FETCH, 2, fetch)


EXAMPLES = Examples(
    settings=KafkaSettings(),
    stream=request(API_VERSIONS, 0, ApiVersionsRequest())
    + _PRODUCE
    + _PRODUCE
    + request(FETCH, 12, fetching(TOPIC)),
    ask=_PRODUCE,
    told=_told,
    outcomes=Outcomes(
        done=Code.NONE,
        denied=Code.TOPIC_AUTHORIZATION_FAILED,
        unauthenticated=Code.SASL_AUTHENTICATION_FAILED,
    ),
    publishes=True,
    messages=st.sampled_from(EVERY_API).flatmap(_messages),
    there_and_back=_there_and_back,
    take=_take,
    limit=KafkaSettings().max_frame_bytes,
    claims=lambda size: size.to_bytes(4, "big"),
    wait=request(FETCH, 12, fetching(TOPIC, max_wait_ms=HOUR_MS)),
    unread=request(API_VERSIONS, 0, ApiVersionsRequest()) * 300,
    not_applicable={Law.LOGIN: "SASL is not served yet, so nobody can log in"},
)
