"""How many requests an endpoint may get now, on a clock of the test."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from mainstem.heads.webhooks.adapter.flow import Flow
from mainstem.heads.webhooks.endpoints import Endpoint, Order
from mainstem.heads.webhooks.schedule import Answer

ENDPOINT = Endpoint(name="shop", url="https://example.com/", topics="orders", max_in_flight=6)
OK, FAILED, HANGS = Answer(200), Answer(500), Answer(error="no answer")


def altered(**changes: object) -> Endpoint:
    return msgspec.structs.replace(ENDPOINT, **changes)


def test_requests_at_a_time_double_with_each_success_up_to_the_limit() -> None:
    flow = Flow(ENDPOINT)
    rooms = []
    for _ in range(5):
        rooms.append(flow.room(0))
        flow.sent()
        flow.answered(OK, 0)

    assert rooms == [1, 2, 4, 6, 6]


def test_after_a_failure_there_is_one_request_until_one_succeeds() -> None:
    flow = Flow(ENDPOINT)
    for answer in (OK, OK, OK, HANGS):
        flow.sent()
        flow.answered(answer, 0)
    assert flow.room(0) == 1

    flow.sent()
    assert (flow.room(0), flow.wait_ms(0)) == (0, None)
    flow.answered(Answer(404), 0)
    # The receiver works: it only does not want this event.
    assert flow.room(0) == 1
    flow.sent()
    flow.answered(OK, 0)
    assert flow.room(0) == 2


def test_with_order_endpoint_there_is_never_more_than_one() -> None:
    flow = Flow(altered(order=Order.ENDPOINT))
    for _ in range(3):
        assert flow.room(0) == 1
        flow.sent()
        assert flow.room(0) == 0
        flow.answered(OK, 0)


def test_nothing_is_sent_before_a_receiver_wants_it() -> None:
    flow = Flow(ENDPOINT)
    flow.sent()
    flow.answered(Answer(429, retry_after_ms=500), 1_000)

    assert (flow.room(1_499), flow.wait_ms(1_499)) == (0, 1)
    assert flow.room(1_500) == 1


@given(
    st.floats(0.5, 5_000),
    st.lists(st.tuples(st.integers(0, 400), st.booleans()), min_size=1, max_size=80),
)
def test_no_more_is_sent_than_the_rate_and_what_it_allows_is(
    per_s: float, steps: list[tuple[int, bool]]
) -> None:
    flow = Flow(altered(max_per_s=per_s, max_in_flight=1_000))
    now_ms = sent = 0
    burst = max(1.0, per_s / 10)
    for passed_ms, greedy in steps:
        now_ms += passed_ms
        while flow.room(now_ms) > 0 and greedy:
            flow.sent()
            flow.answered(OK, now_ms)
            sent += 1
        if greedy:
            # What is missing for the next request comes with time, not later than promised.
            wait_ms = flow.wait_ms(now_ms)
            assert wait_ms is not None
            now_ms += wait_ms
            assert flow.room(now_ms) >= 1
        assert sent <= burst + now_ms * per_s / 1000 + 1
