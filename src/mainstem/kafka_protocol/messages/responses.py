"""Base classes of responses."""

from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.wire import Int16, Int32, String


class Throttled(Wire, frozen=True):
    """A response with a throttle time."""

    throttle_time_ms: Int32 = 0


class ThrottledError(Throttled, frozen=True):
    """A response with throttle time and an error code for the whole request."""

    error_code: Int16 = 0


class ExplainedError(ThrottledError, frozen=True):
    """A response with throttle time, error code and message."""

    error_message: String | None = None
