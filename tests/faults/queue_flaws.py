"""Simulated bugs of a server's queues, to test that the checker detects them."""

LOSES_SOME = """
from mainstem.broker.queues.delivery_state import Window
real = Window.add
def add(self, offset, key):
    given = real(self, offset, key)
    if offset % 100 == 50:
        del self.entries[offset]
        return False
    return given
Window.add = add
"""
"""Gives every hundredth event to nobody."""

FORGETS_ACKS = """
from mainstem.broker.queues.settlement import Settler
from mainstem.broker.queues.records import QueueKey
from mainstem.log.commit.durable import AT_ONCE
real = Settler.write
def write(self, changes, letters=(), **how):
    if any(isinstance(each.key, QueueKey) for each in changes):
        return real(self, changes, letters, **how)
    self._fold.apply(changes)
    return AT_ONCE
Settler.write = write
"""
"""Writes no acknowledgement down."""
