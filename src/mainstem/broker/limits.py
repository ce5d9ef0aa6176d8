"""The limits of classic groups, producers and transactions, all in one."""

import msgspec

from mainstem.broker.group_limits import GroupLimits
from mainstem.broker.producers import ProducerLimits
from mainstem.broker.settlements import TransactionLimits


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What members, producers and their transactions may do."""

    groups: GroupLimits = GroupLimits()
    producers: ProducerLimits = ProducerLimits()
    transactions: TransactionLimits = TransactionLimits()
