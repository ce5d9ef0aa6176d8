"""Creates dead letters for tests: events that a consumer rejects."""

from mainstem.client.stem import Stem


def reject_all(stem: Stem, topic: str = "orders", reason: str = "no") -> None:
    """Reject every event that the queue ``emails`` of a topic holds."""
    for delivery in stem.queue(topic, name="emails", follow=False):
        delivery.reject(reason)
