"""Expected state of AMQP queues whose messages expire, die, overtake others or are delayed.

Whatever is cut, killed or full, and wherever the clock on the wall is set: nothing that was
confirmed is lost; a message is in one place at a time: in its queue, acknowledged, expired or a
dead letter, and from each it goes on once, with headers that tell of it; none expires before its
time, and none is delivered after it; none is delivered before it is due; none is first delivered
while one of higher priority waits, and those of one channel and priority are in order.
"""

from collections import Counter
from functools import partial
from typing import NamedTuple

from tests.simulation.amqp_book import raise_in_world
from tests.simulation.wall_clock import Moment
from tests.simulation.world import World, Wrong

from mainstem.broker.queues.limits import AWAITED_MS
from mainstem.heads.amqp091.properties import decode_properties

ORDERS = "orders"
"""A queue with priorities; what is rejected there comes back from the queue ``retry``."""
RETRY = "retry"
"""A queue without consumers, whose messages expire and go to ``orders``."""
BRIEF = "brief"
"""A queue whose messages expire; what expires or is rejected there goes to ``graves``."""
GRAVES = "graves"
FLEETING = "fleeting"
"""A queue whose messages expire, and are dropped then."""
DUE = "due"
"""A queue of messages that were delayed."""
QUEUES = (ORDERS, RETRY, BRIEF, GRAVES, FLEETING, DUE)
TTL_MS = {RETRY: 150, BRIEF: 600, FLEETING: 400}
MOST_PRIORITY = 3
EXPIRED, REJECTED = "expired", "rejected"


class Posted(NamedTuple):
    """A message as its publisher knows it."""

    queue: str
    channel: str
    """On which it was published; no other channel ever has that name."""
    number: int
    at: Moment
    """When it was published, or a little earlier."""
    is_persistent: bool
    priority: int | None = None
    expires_ms: int | None = None
    """Its own time to live."""
    delay_ms: int = 0

    @property
    def rank(self) -> int:
        """Its priority in its queue."""
        return min(self.priority or 0, MOST_PRIORITY) if self.queue == ORDERS else 0

    @property
    def ttl_ms(self) -> int | None:
        """The time to live that applies in its queue."""
        given = [each for each in (TTL_MS.get(self.queue), self.expires_ms) if each is not None]
        return min(given, default=None)


class Copy(NamedTuple):
    """A message in one of the places to which it comes one after the other."""

    queue: str
    body: bytes
    deaths: int
    """How often it has been a dead letter."""


class Held(NamedTuple):
    """What is told with a delivery."""

    copy: Copy
    redelivered: bool
    deaths: Counter[tuple[str, str]]
    """How often it has died in which queue, and why."""
    delay: object
    """Its header ``x-delay``."""


def delivered(queue: str, body: bytes, properties: bytes, *, redelivered: bool) -> Held:
    """Return what a delivery from a queue tells."""
    headers = decode_properties(properties).headers or {}
    deaths: Counter[tuple[str, str]] = Counter()
    told = headers.get("x-death")
    for each in told if isinstance(told, list) else ():
        assert isinstance(each, dict)
        count = each["count"]
        assert isinstance(count, int)
        deaths[str(each["queue"]), str(each["reason"])] += count
    return Held(Copy(queue, body, deaths.total()), redelivered, deaths, headers.get("x-delay"))


class AmqpTimedBook:
    """Everything that was published, delivered and settled."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._posted: dict[bytes, Posted] = {}
        self._confirmed: dict[bytes, None] = {}
        self._waiting: dict[bytes, Posted] = {}
        """What was confirmed, for ``orders``, and never delivered."""
        self._latest_ms: dict[bytes, int] = {}
        """When messages were published at the latest, by the clock on the wall."""
        self._sent: dict[Copy, None] = {}
        """What was ever delivered."""
        self._deaths: dict[bytes, int] = {}
        """How often a message has died, as far as its deliveries tell."""
        self._acked: dict[bytes, None] = {}
        """What somebody has acknowledged, and may be gone."""
        self._rejected: dict[Copy, Moment] = {}
        """When somebody first rejected what may be a dead letter."""
        self._gone: dict[Copy, int] = {}
        """What is settled, and how often the power had been cut then."""
        self._kept: dict[Copy, int] = {}
        """Those of them that are acknowledged, and never become dead letters."""
        self._last: dict[tuple[str, str, int], int] = {}
        """The number of the last message that was first delivered, by queue, channel and rank."""
        self._is_restarted = False

    def now(self) -> Moment:
        """Return this moment, by the clock on the wall."""
        return self._world.wall_clock.now()

    # What clients do

    def publish(self, body: bytes, message: Posted) -> None:
        """Take note that a message is on its way."""
        self._posted[body] = message

    def confirm(self, body: bytes) -> None:
        """Take note that a message was confirmed."""
        self._confirmed[body] = None
        self._is_there(body)
        message = self._posted[body]
        # What is not persistent is confirmed before it is to be seen.
        is_new = Copy(ORDERS, body, 0) not in self._sent
        if message.queue == ORDERS and message.is_persistent and is_new:
            self._waiting[body] = message

    def ack(self, copies: list[Copy]) -> None:
        """Take note that deliveries may be acknowledged from now on."""
        self._acked |= dict.fromkeys(each.body for each in copies)

    def reject(self, copies: list[Copy]) -> None:
        """Take note that deliveries may become dead letters from now on."""
        for each in copies:
            self._rejected.setdefault(each, self.now())

    def settled(self, copies: list[Copy], power_cuts: int, *, acked: bool) -> None:
        """Take note that the server has settled deliveries, when the power had been cut so often.

        ``acked``: and not rejected.
        """
        for each in copies:
            self._gone[each] = power_cuts
            if acked:
                self._kept[each] = power_cuts

    # What the server does

    def sent(self, held: Held) -> None:
        """See whether a message may be delivered."""
        copy, redelivered, *_ = held
        self._world.note("amqp sent", *copy, "redelivered" if redelivered else "")
        try:
            self._check(held)
        except Wrong as error:
            # The head would take it for an error of its own.
            self._world.at(0, partial(raise_in_world, error))
        self._did("redelivered" if redelivered else "delivered")

    def _check(self, held: Held) -> None:
        copy, redelivered, deaths, _ = held
        message = self._posted.get(copy.body)
        if message is None:
            raise Wrong(f"{copy} was delivered, and nobody has published it")
        if not copy.deaths:
            self._check_times(held, message)
        else:
            self._check_death(copy, deaths, message)
        if self._is_so(copy, self._gone):
            raise Wrong(f"{copy} was delivered, though it was settled")
        if copy.deaths < self._deaths.get(copy.body, 0):
            # A dead letter is delivered only when it is durable that it has left its queue.
            raise Wrong(f"{copy} was delivered, though it had become a dead letter")
        self._deaths[copy.body] = copy.deaths
        if copy in self._sent and not redelivered:
            raise Wrong(f"{copy} was delivered again, and not as redelivered")
        if copy not in self._sent and redelivered and not self._is_restarted:
            raise Wrong(f"{copy} was delivered as redelivered, and never was before")
        if copy not in self._sent:
            self._sent[copy] = None
            if not copy.deaths:
                self._check_order(copy, message)

    def _check_times(self, held: Held, message: Posted) -> None:
        """See whether a message may come from the queue to which it was published."""
        copy = held.copy
        if copy.queue != message.queue:
            raise Wrong(f"{copy} was delivered, and was published to {message.queue}")
        clock, now_ms, ttl_ms = self._world.wall_clock, self.now().ms, message.ttl_ms
        if message.delay_ms:
            if clock.rise_since(message.at) < message.delay_ms:
                raise Wrong(f"{copy} was delivered before it was due: {message}")
            if held.delay != -message.delay_ms:
                raise Wrong(f"{copy} tells of the delay {held.delay}: {message}")
            self._did("delayed")
        self._is_there(copy.body)
        if ttl_ms is not None:
            # It expires later if a consumer waited for it, and nobody has got it yet.
            most_ms = ttl_ms + (0 if copy in self._sent else AWAITED_MS)
            late_ms = now_ms - self._latest_ms[copy.body] - most_ms
            if late_ms >= 0:
                raise Wrong(f"{copy} was delivered {late_ms} ms after its time to live")

    def _check_death(self, copy: Copy, deaths: Counter[tuple[str, str]], message: Posted) -> None:
        """See whether a message may be a dead letter in a queue."""
        rise_since = self._world.wall_clock.rise_since
        rounds, rest = divmod(copy.deaths, 2)
        if message.queue == copy.queue == ORDERS and not rest:
            before = Copy(ORDERS, copy.body, copy.deaths - 2)
            wanted = {(ORDERS, REJECTED): rounds, (RETRY, EXPIRED): rounds}
            first = self._rejected.get(before)
            may_be = first is not None and rise_since(first) >= TTL_MS[RETRY]
            self._did("retried" if rounds == 1 else "retried again")
        elif (message.queue, copy.queue, copy.deaths) == (BRIEF, GRAVES, 1):
            before = Copy(BRIEF, copy.body, 0)
            reason = REJECTED if deaths[BRIEF, REJECTED] else EXPIRED
            wanted = {(BRIEF, reason): 1}
            may_be = before in self._rejected
            if reason == EXPIRED:
                may_be = rise_since(message.at) >= (message.ttl_ms or 0)
            self._did(reason)
        else:
            raise Wrong(f"{copy} was delivered, and was published to {message.queue}")
        if deaths != wanted:
            raise Wrong(f"{copy} tells of {dict(deaths)}, not of {wanted}")
        if not may_be:
            raise Wrong(f"{copy} is a dead letter before its time, or without a reason: {message}")
        if self._is_so(before, self._kept):
            raise Wrong(f"{copy} is a dead letter, though it was acknowledged")

    def _check_order(self, copy: Copy, message: Posted) -> None:
        """See whether a message may be first delivered now."""
        self._waiting.pop(copy.body, None)
        if message.queue == DUE:
            return
        place = (message.queue, message.channel, message.rank)
        last = self._last.get(place, -1)
        if message.number < last and not self._may_have_expired(message):
            raise Wrong(f"{message} comes after number {last}")
        self._last[place] = max(last, message.number)
        if message.queue == ORDERS:
            for each in self._waiting.values():
                if each.rank > message.rank:
                    raise Wrong(f"{message} comes before one of higher priority: {each}")
                if each.rank < message.rank and each.number < message.number:
                    self._did("overtook")

    def _may_have_expired(self, message: Posted) -> bool:
        """Tell whether a message may have been passed over, as it had expired for a while.

        It stays if the disk is full, and comes again if the clock is set back.
        """
        rise_ms = self._world.wall_clock.rise_since(message.at)
        return message.ttl_ms is not None and rise_ms >= message.ttl_ms

    def after_crash(self) -> None:
        """Take note that the server has begun anew."""
        for body in self._posted:
            self._is_there(body)
        # What was waiting then may have been delivered, as far as the server knows.
        self._is_restarted = True
        # What is not persistent is confirmed before it is durable.
        self._confirmed = {
            each: None for each in self._confirmed if self._posted[each].is_persistent
        }

    def when_fleeting_is_empty(self) -> None:
        """See that nothing is missing from the queue whose messages are dropped."""
        for body in self._confirmed:
            message = self._posted[body]
            if message.queue == FLEETING and body not in self._acked:
                if self._world.wall_clock.rise_since(message.at) < (message.ttl_ms or 0):
                    raise Wrong(f"{message} was confirmed, and is lost before it expired")
                self._did("dropped")

    def at_the_end(self) -> None:
        """See that nothing is missing, when all queues are empty."""
        for body in self._confirmed:
            message = self._posted[body]
            if message.queue != FLEETING and body not in self._acked:
                raise Wrong(f"{message} was confirmed, and is lost")

    def _is_there(self, body: bytes) -> None:
        """Take note that a message is published by now, if it ever is."""
        if body not in self._latest_ms:
            highest_ms = self._world.wall_clock.highest_since(self._posted[body].at)
            self._latest_ms[body] = highest_ms

    def _is_so(self, copy: Copy, found: dict[Copy, int]) -> bool:
        """Tell whether something was true of a copy, and no power cut can have taken it back."""
        return found.get(copy) == self._world.power_cuts

    def _did(self, deed: str) -> None:
        self._world.deeds[f"timed: {deed}"] += 1
