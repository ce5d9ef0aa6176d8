"""Base classes of response messages."""

from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.wire import Int16, Int32, String


class Throttled(Wire, frozen=True):
    """Base class: a response that has a throttle time."""

    throttle_time_ms: Int32 = 0


class ThrottledError(Throttled, frozen=True):
    """Base class: a response that has a throttle time, and one error code for the request."""

    error_code: Int16 = 0


class ExplainedError(ThrottledError, frozen=True):
    """Base class: a response that has a throttle time, an error code and an error message."""

    error_message: String | None = None
