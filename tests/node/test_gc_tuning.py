"""Objects that live long are left out of garbage collection, but cycles among them end."""

import subprocess
import sys

import pytest

BEGIN = """
import gc, weakref
from mainstem.node.gc_tuning import long_lived_left_out

class Circle:
    def __init__(self):
        self.itself = self

def many():
    return [Circle() for _ in range(gc.get_freeze_count())]
"""
LEFT_OUT = """
with long_lived_left_out():
    kept = [Circle() for _ in range(1_000)]
    gc.collect()
    assert not any(isinstance(each, Circle) for each in gc.get_objects())
    old = weakref.ref(kept.pop())
    gc.collect()
    assert old() is not None
gc.collect()
assert old() is None
"""
COLLECTED = """
with long_lived_left_out():
    kept = [Circle() for _ in range(1_000)]
    gc.collect()
    old = weakref.ref(kept.pop())
    more = many()
    # The first sees that they have doubled, the second goes through all.
    gc.collect()
    assert old() is not None
    gc.collect()
    assert old() is None
    gc.collect()
    assert not any(isinstance(each, Circle) for each in gc.get_objects())
"""
CHURN = """
with long_lived_left_out():
    first = gc.get_freeze_count()
    for _ in range(20):
        brief = [Circle() for _ in range(first)]
        gc.collect()
        gone = weakref.ref(brief[0])
        for each in brief:
            each.itself = None
        del brief, each
        assert gone() is None
        assert gc.get_freeze_count() < 2 * first
"""


@pytest.mark.parametrize("program", [LEFT_OUT, COLLECTED, CHURN])
def test_what_lives_long_is_left_out_until_it_has_doubled(program: str) -> None:
    """In a process of its own, in which nothing else makes objects."""
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + program], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
