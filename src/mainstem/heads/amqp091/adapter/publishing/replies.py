"""Direct reply-to: answers that go straight to the channel that asked, and into no queue.

How this works: a client consumes from ``amq.rabbitmq.reply-to``, which is no queue, and names that
in ``reply_to``. Each such channel has a name of its own, which its messages carry instead; what is
published under that name by the default exchange is sent to the channel if it is still there.
"""

from typing import TYPE_CHECKING

from mainstem.heads.amqp091.errors import AmqpError, ReplyCode
from mainstem.heads.amqp091.fields import short_string
from mainstem.heads.amqp091.messages import Publish

if TYPE_CHECKING:
    from mainstem.heads.amqp091.adapter.channel import AmqpChannel

REPLY_TO = "amq.rabbitmq.reply-to"
REPLY_PREFIX = f"{REPLY_TO}."
"""How the names begin under which channels are answered."""


class Replies:
    """Who waits for answers, by the name under which they are published."""

    def __init__(self) -> None:
        self._by_name: dict[str, AmqpChannel] = {}
        self._tags: dict[AmqpChannel, tuple[str, bytes, str]] = {}
        """The tag of each channel's consumer, as text and in a frame, and its name."""

    def consume(self, channel: "AmqpChannel", tag: str, name: str, *, no_ack: bool) -> None:
        """Let a channel be answered."""
        if not no_ack:
            detail = "reply consumer cannot acknowledge"
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, detail, 60, 20)
        if channel in self._tags:
            detail = "reply consumer already set"
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, detail, 60, 20)
        self._by_name[name] = channel
        self._tags[channel] = (tag, short_string(tag), name)

    def name_of(self, channel: "AmqpChannel") -> str | None:
        """Return what ``amq.rabbitmq.reply-to`` means on a channel, None if it does not consume."""
        found = self._tags.get(channel)
        return None if found is None else found[2]

    def has(self, channel: "AmqpChannel", tag: str) -> bool:
        """Tell whether a channel's consumer of answers has a tag."""
        found = self._tags.get(channel)
        return found is not None and found[0] == tag

    def cancel(self, channel: "AmqpChannel", tag: str) -> None:
        """Answer a channel no more, if this is its tag."""
        if self.has(channel, tag):
            self.forget(channel)

    def forget(self, channel: "AmqpChannel") -> None:
        """Answer a channel no more."""
        found = self._tags.pop(channel, None)
        if found is not None:
            del self._by_name[found[2]]

    def knows(self, name: str) -> bool:
        """Tell whether somebody waits under a name."""
        return name in self._by_name

    def send(self, name: str, message: Publish) -> bool:
        """Send an answer; False if nobody waits for it."""
        channel = self._by_name.get(name)
        if channel is None:
            return False
        channel.send_reply(self._tags[channel][1], message)
        return True
