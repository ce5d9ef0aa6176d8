"""Errors for AMQP 0-9-1 clients: a reply code and a text.

A soft error closes the channel, a hard one the whole connection. Texts are RabbitMQ's where it has
some, because clients and their tests compare them.
"""

from enum import IntEnum


class ReplyCode(IntEnum):
    """The reply codes [AMQP 0-9-1, 1.1 Constants]; their names appear in error texts."""

    CONTENT_TOO_LARGE = 311
    NO_ROUTE = 312
    NO_CONSUMERS = 313
    CONNECTION_FORCED = 320
    INVALID_PATH = 402
    ACCESS_REFUSED = 403
    NOT_FOUND = 404
    RESOURCE_LOCKED = 405
    PRECONDITION_FAILED = 406
    FRAME_ERROR = 501
    SYNTAX_ERROR = 502
    COMMAND_INVALID = 503
    CHANNEL_ERROR = 504
    UNEXPECTED_FRAME = 505
    RESOURCE_ERROR = 506
    NOT_ALLOWED = 530
    NOT_IMPLEMENTED = 540
    INTERNAL_ERROR = 541


_HARD = frozenset(
    {
        ReplyCode.CONNECTION_FORCED,
        ReplyCode.INVALID_PATH,
        ReplyCode.FRAME_ERROR,
        ReplyCode.SYNTAX_ERROR,
        ReplyCode.COMMAND_INVALID,
        ReplyCode.CHANNEL_ERROR,
        ReplyCode.UNEXPECTED_FRAME,
        ReplyCode.RESOURCE_ERROR,
        ReplyCode.NOT_ALLOWED,
        ReplyCode.NOT_IMPLEMENTED,
        ReplyCode.INTERNAL_ERROR,
    }
)


class AmqpError(Exception):
    """Refuses a request; closes the channel, or the connection if the error is hard."""

    def __init__(self, code: ReplyCode, detail: str, class_id: int = 0, method_id: int = 0) -> None:
        super().__init__(f"{code.name} - {detail}")
        self.code = code
        self.detail = detail
        self.class_id = class_id
        """Class id of the refused method; 0 if the error is not about a method."""
        self.method_id = method_id

    def about(self, class_id: int, method_id: int) -> "AmqpError":
        """Set the ids of the refused method, unless set already; return this error."""
        if not self.class_id:
            self.class_id, self.method_id = class_id, method_id
        return self

    @property
    def is_hard(self) -> bool:
        """Whether the error closes the whole connection, not only the channel."""
        return self.code in _HARD

    @property
    def reply_text(self) -> str:
        """The text that Channel.Close or Connection.Close carries."""
        return str(self)
