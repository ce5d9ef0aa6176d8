"""Kafka's names of group types, and of the states of share groups."""

CONSUMER = "consumer"
"""The type of consumer groups; also the protocol type of consumers in classic groups."""
SHARE = "share"
"""The type of share groups, as ListGroups returns it."""
MAX_ID_LENGTH = 36
"""Maximum length of the member id in a share group, as in Kafka: that of a UUID."""


def share_state(*, has_members: bool) -> str:
    """Return Kafka's name for the state of a share group with or without members."""
    return "Stable" if has_members else "Empty"
