"""Base classes of response messages."""

from typing import Annotated

from mainstem.kafka_protocol.fields import IGNORABLE, Since, Wire
from mainstem.kafka_protocol.wire import Int16, Int32, String


class Throttled(Wire, frozen=True):
    """Base class: a response that has a throttle time."""

    throttle_time_ms: Int32 = 0


class ThrottledSince1(Wire, frozen=True):
    """Base class: a response that has a throttle time since version 1."""

    throttle_time_ms: Annotated[Int32, Since(1), IGNORABLE] = 0


class ThrottledSince2(Wire, frozen=True):
    """Base class: a response that has a throttle time since version 2."""

    throttle_time_ms: Annotated[Int32, Since(2), IGNORABLE] = 0


class ThrottledSince3(Wire, frozen=True):
    """Base class: a response that has a throttle time since version 3."""

    throttle_time_ms: Annotated[Int32, Since(3), IGNORABLE] = 0


class ThrottledError(Throttled, frozen=True):
    """Base class: a response that has a throttle time, and one error code for the request."""

    error_code: Int16 = 0


class ExplainedError(ThrottledError, frozen=True):
    """Base class: a response that has a throttle time, an error code and an error message."""

    error_message: String | None = None
