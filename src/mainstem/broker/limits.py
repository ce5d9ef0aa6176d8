"""The limits of topics, groups, producers and transactions, all in one."""

import msgspec

from mainstem.broker.group_defaults import GroupDefaults
from mainstem.broker.group_limits import GroupLimits
from mainstem.broker.producers import ProducerLimits
from mainstem.broker.settlements import TransactionLimits
from mainstem.broker.topics import TopicLimits


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What topics, members, producers and their transactions may do."""

    topics: TopicLimits = TopicLimits()
    groups: GroupLimits = GroupLimits()
    group_defaults: GroupDefaults = GroupDefaults()
    producers: ProducerLimits = ProducerLimits()
    transactions: TransactionLimits = TransactionLimits()
