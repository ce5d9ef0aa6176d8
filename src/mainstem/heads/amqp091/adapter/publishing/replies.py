"""Direct reply-to: replies that are sent straight to the requesting channel, without a queue.

How this works: a requesting client consumes from ``amq.rabbitmq.reply-to``, which is not a queue,
and publishes requests with that name as ``reply_to``. The server replaces it in these requests with
a name that is unique to the client's channel. A reply is a message that is published to the default
exchange with the unique name as routing key; it is sent to that channel if the channel is still
open.
"""

from typing import TYPE_CHECKING

from mainstem.heads.amqp091.errors import AmqpError, ReplyCode
from mainstem.heads.amqp091.fields import short_string
from mainstem.heads.amqp091.messages import Publish

if TYPE_CHECKING:
    from mainstem.heads.amqp091.adapter.channel import AmqpChannel

REPLY_TO = "amq.rabbitmq.reply-to"
REPLY_PREFIX = f"{REPLY_TO}."
"""Prefix of the unique reply names of channels."""


class Replies:
    """The channels that consume direct replies, by their unique reply name."""

    def __init__(self) -> None:
        self._by_name: dict[str, AmqpChannel] = {}
        self._tags: dict[AmqpChannel, tuple[str, bytes, str]] = {}
        """By channel: the tag of its reply consumer (as text and encoded), and its unique reply
        name.
        """

    def consume(self, channel: "AmqpChannel", tag: str, name: str, *, no_ack: bool) -> None:
        """Record that a channel consumes direct replies with this consumer tag."""
        if not no_ack:
            detail = "reply consumer cannot acknowledge"
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, detail, 60, 20)
        if channel in self._tags:
            detail = "reply consumer already set"
            raise AmqpError(ReplyCode.PRECONDITION_FAILED, detail, 60, 20)
        self._by_name[name] = channel
        self._tags[channel] = (tag, short_string(tag), name)

    def name_of(self, channel: "AmqpChannel") -> str | None:
        """Return a channel's unique reply name, None if it does not consume direct replies."""
        found = self._tags.get(channel)
        return None if found is None else found[2]

    def has(self, channel: "AmqpChannel", tag: str) -> bool:
        """Tell whether the channel's consumer of direct replies has this tag."""
        found = self._tags.get(channel)
        return found is not None and found[0] == tag

    def cancel(self, channel: "AmqpChannel", tag: str) -> None:
        """End the channel's consumer of direct replies if it has this tag."""
        if self.has(channel, tag):
            self.forget(channel)

    def forget(self, channel: "AmqpChannel") -> None:
        """End the channel's consumer of direct replies, if it has one."""
        found = self._tags.pop(channel, None)
        if found is not None:
            del self._by_name[found[2]]

    def knows(self, name: str) -> bool:
        """Tell whether a channel consumes direct replies under this name."""
        return name in self._by_name

    def send(self, name: str, message: Publish) -> bool:
        """Send a direct reply; return False if no channel consumes replies under this name."""
        channel = self._by_name.get(name)
        if channel is None:
            return False
        channel.send_reply(self._tags[channel][1], message)
        return True
