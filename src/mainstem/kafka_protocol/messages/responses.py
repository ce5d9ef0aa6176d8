"""How most responses begin."""

from mainstem.kafka_protocol.fields import Wire
from mainstem.kafka_protocol.wire import Int16, Int32, String


class Throttled(Wire, frozen=True):
    """Says for how long the client is to wait before it asks again."""

    throttle_time_ms: Int32 = 0


class ThrottledError(Throttled, frozen=True):
    """Says besides that all of the request was refused, or 0."""

    error_code: Int16 = 0


class ExplainedError(ThrottledError, frozen=True):
    """Says besides why it was refused."""

    error_message: String | None = None
