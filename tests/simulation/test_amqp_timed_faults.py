"""What would make AMQP messages expire, die, overtake or wait wrongly is noticed."""

from collections.abc import Iterator, Sequence

import pytest
from tests.long_runs import LONG
from tests.simulation.lives import Fault, check_it_is_noticed
from tests.simulation.simulation import simulate

from mainstem.broker.delays import delays
from mainstem.broker.delays.due_index import DueIndex
from mainstem.broker.delays.records import Delayed, decode_key
from mainstem.broker.queues import queues
from mainstem.broker.queues.dead_letters import NO_LETTERS, DeadLetters
from mainstem.broker.queues.delivery_state import Window
from mainstem.broker.queues.limits import expiry_ms
from mainstem.broker.queues.live_queue import Chosen, LiveQueue
from mainstem.broker.queues.records import Cause, QueueChange, QueueSettings
from mainstem.broker.queues.settlement import Settler
from mainstem.core.event import Event
from mainstem.heads.amqp091.adapter.queues import dead_letter_router, dead_lettering
from mainstem.log.commit.durable import AT_ONCE
from mainstem.log.port import Batches, Durable

CASTS = ("timed", "queue")
STEPS = 4_000 if LONG else 1_500
APPLY, CHOOSE, DEAD_LETTER, MAKE, TAKE = (
    delays.apply,
    LiveQueue.choose,
    dead_lettering.dead_letter,
    DeadLetters.make,
    DueIndex.take,
)


def write_only_letters(
    self: Settler, changes: Sequence[QueueChange], letters: Batches = (), *, lazy: bool = False
) -> Durable:
    """Forget at the next start what became a dead letter."""
    batches = letters or [*self._journal.batches(changes, self._now_ms())]
    durable = self._state.log.append(batches, lazy=lazy).durable if batches else AT_ONCE
    self._fold.apply(changes)
    return durable


def latest_first(self: LiveQueue, max_events: int, max_bytes: int) -> Iterator[Chosen]:
    """Deliver what is delivered at once in the wrong order, within each priority."""
    chosen = list(CHOOSE(self, max_events, max_bytes))
    yield from sorted(chosen, key=lambda it: (it[1].partition, it[1].offset), reverse=True)


def forget_marks(index: DueIndex, record: Event) -> None:
    """Forget at the next start which delayed events were published."""
    if isinstance(decode_key(record.key or b""), Delayed):
        APPLY(index, record)


def expire_early(settings: QueueSettings, event: Event, window: Window) -> int | None:
    """Return a time before that at which an event expires."""
    due_ms = expiry_ms(settings, event, window)
    return None if due_ms is None else due_ms - 300


FAULTS: dict[str, Fault] = {
    "what has expired is delivered": (
        queues,
        "expiry_ms",
        lambda *_: None,
        "ms after its time to live",
    ),
    "messages expire too early": (
        queues,
        "expiry_ms",
        expire_early,
        "is a dead letter before its time|is lost before it expired",
    ),
    "dead letters are lost": (
        DeadLetters,
        "make",
        # Those of AMQP queues.
        lambda self, live, dead: (
            NO_LETTERS if live.settings.dead_letter_route else MAKE(self, live, dead)
        ),
        "was confirmed, and is lost",
    ),
    "dead letters are also left in their queue": (
        Settler,
        "write",
        write_only_letters,
        "though it (had become|was settled|was acknowledged)|again, and not as redelivered",
    ),
    "dead letters do not tell why": (
        dead_letter_router,
        "dead_letter",
        lambda queue, exchange, key, properties, _, now_ms: DEAD_LETTER(
            queue, exchange, key, properties, Cause.LENGTH, now_ms
        ),
        "tells of",
    ),
    "priorities are turned round": (
        LiveQueue,
        "in_turn",
        lambda self, partitions: sorted(partitions),
        "before one of higher priority",
    ),
    "the order within a priority is turned round": (
        LiveQueue,
        "choose",
        latest_first,
        "comes after number",
    ),
    "delays end too early": (
        DueIndex,
        "take",
        lambda self, now_ms, most: TAKE(self, now_ms + 300, most),
        "before it was due",
    ),
    "delayed messages are lost when they are due": (
        delays._Slice,
        "batches",
        lambda _: iter(()),
        "was confirmed, and is lost",
    ),
    "delayed messages are published again": (
        delays,
        "apply",
        forget_marks,
        "delivered, though it was settled|delivered again, and not as redelivered",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_it_would_be_noticed_if(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    check_it_is_noticed(
        monkeypatch, FAULTS[fault], lambda seed: simulate(seed, casts=CASTS, steps=STEPS)
    )
