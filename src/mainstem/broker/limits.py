"""The broker's configurable limits, and the defaults of groups, in one struct."""

import msgspec

from mainstem.broker.groups.defaults import GroupDefaults
from mainstem.broker.groups.limits import GroupLimits
from mainstem.broker.producers.producers import ProducerLimits
from mainstem.broker.topics.catalog import TopicLimits
from mainstem.broker.transactions.completion import TransactionLimits


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of topics, groups, producers and transactions, and group defaults."""

    topics: TopicLimits = TopicLimits()
    groups: GroupLimits = GroupLimits()
    group_defaults: GroupDefaults = GroupDefaults()
    producers: ProducerLimits = ProducerLimits()
    transactions: TransactionLimits = TransactionLimits()
