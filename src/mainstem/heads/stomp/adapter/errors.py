"""Maps broker errors to ERROR frames; their ``message`` header depends on the class of failure."""

from mainstem.core.errors import Failure, MainstemError
from mainstem.heads.stomp.session import Refused, Session

SUMMARIES = {
    Failure.NOT_FOUND: "not_found",
    Failure.EXISTS: "resource_exists",
    Failure.CONFLICT: "precondition_failed",
    Failure.INVALID: "invalid_request",
    Failure.DENIED: "access_refused",
    Failure.UNAUTHENTICATED: "Bad CONNECT",
    Failure.FENCED: "resource_locked",
    Failure.STALE: "Message not found",
    Failure.OVERLOADED: "resource_limit_exceeded",
    Failure.TOO_LARGE: "content_too_large",
    Failure.UNAVAILABLE: "resource_unavailable",
    Failure.UNSUPPORTED: "not_implemented",
    Failure.CORRUPT: "internal_error",
}
"""The ``message`` header by class of failure, in RabbitMQ's words where it has such an error."""


def refusal(session: Session, error: MainstemError, receipt: str | None = None) -> Refused:
    """Return the error that ends the session with an ERROR frame for a broker error."""
    return session.refused(SUMMARIES[error.failure], f"{error}\n", receipt)
