"""Events that a consumer does not want: they become dead letters."""

from mainstem.client.stem import Stem


def reject_all(stem: Stem, topic: str = "orders", reason: str = "no") -> None:
    """Reject every event that the queue ``emails`` of a topic holds."""
    for delivery in stem.queue(topic, name="emails", follow=False):
        delivery.reject(reason)
