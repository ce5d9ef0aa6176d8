"""Types of groups, by Kafka's names."""

CONSUMER = "consumer"
"""The type of consumer groups, and the protocol type of consumers in classic groups."""
SHARE = "share"
"""The type of share groups in lists of groups."""
MAX_ID_LENGTH = 36
"""The longest id of a share group's member that Kafka allows: the length of a UUID."""


def share_state(*, has_members: bool) -> str:
    """Return the state of a share group."""
    return "Stable" if has_members else "Empty"
