"""Maps broker errors to AMQP errors, by their class of failure."""

from mainstem.core.errors import Failure, MainstemError
from mainstem.heads.amqp091.errors import AmqpError, ReplyCode
from mainstem.heads.amqp091.methods import Ids

CODES = {
    Failure.NOT_FOUND: ReplyCode.NOT_FOUND,
    Failure.EXISTS: ReplyCode.PRECONDITION_FAILED,
    Failure.CONFLICT: ReplyCode.PRECONDITION_FAILED,
    Failure.INVALID: ReplyCode.PRECONDITION_FAILED,
    Failure.DENIED: ReplyCode.ACCESS_REFUSED,
    Failure.UNAUTHENTICATED: ReplyCode.ACCESS_REFUSED,
    Failure.FENCED: ReplyCode.RESOURCE_LOCKED,
    Failure.STALE: ReplyCode.PRECONDITION_FAILED,
    Failure.OVERLOADED: ReplyCode.RESOURCE_ERROR,
    Failure.TOO_LARGE: ReplyCode.PRECONDITION_FAILED,
    Failure.UNAVAILABLE: ReplyCode.INTERNAL_ERROR,
    Failure.UNSUPPORTED: ReplyCode.NOT_IMPLEMENTED,
    Failure.CORRUPT: ReplyCode.INTERNAL_ERROR,
}


def refusal(error: MainstemError, ids: Ids = (0, 0)) -> AmqpError:
    """Return the AMQP error for a broker error; ``ids``: class and method id of the request."""
    return AmqpError(CODES[error.failure], str(error), *ids)
