"""Receivers of multicast feeds: ``mainstem.feeds.MulticastFeed``."""

from mainstem.client.feeds.multicast import FeedReport, MulticastFeed, replayed
from mainstem.client.feeds.reassembly import Message, Patience

__all__ = ["FeedReport", "Message", "MulticastFeed", "Patience", "replayed"]
