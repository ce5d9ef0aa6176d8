"""Transactional clients that keep working under faults, and record what they did.

How this works: each client is a thread, and goes on until it is told to stop. Senders write
transactions over several partitions; workers turn events into others, and move their group's
cursors in the same transaction; readers seek to and fro; members of a group come and go. Where a
client cannot go on, it begins anew as a program does that was restarted, under the same name.

No producer is called while an error is handled, and none is freed that awaits something, for the
reasons that ``mainstem.remote.transactions`` gives.

A transaction may be seen if its commit was asked for and nobody has said that it failed. If the
client was told that it has to be aborted, and has aborted it, it must not be seen.
"""

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from random import Random

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from tests.checker.history import Outcome, Place, Read, Recorder, Sent
from tests.faults.killable_server import QUICK, Tally

from mainstem.remote.transactions import give_up

INPUTS = 4
OUTPUTS = 3
PLACES: list[Place] = [("in", n) for n in range(INPUTS)] + [("out", n) for n in range(OUTPUTS)]
STEP_S = 8
"""After this a client is given up, which now and then waits for nothing after a restart."""
LAST_S = 90
"""After this a partition that is read to its end is given up, which is a failure."""
_numbers = itertools.count()


class Client:
    """What all clients share: a name, a place to take things down, and a thread."""

    def __init__(self, name: str, address: str, recorder: Recorder, done: Tally, seed: int) -> None:
        self.name, self.address = name, address
        self.recorder, self.done = recorder, done
        self.rng = Random(f"{name} {seed}")
        self.stop = threading.Event()
        self.wrong: list[str] = []
        self._taken: list[Message] = []
        """What the poll that is under way has found so far."""

    def run(self, live: Callable[["Client"], None]) -> threading.Thread:
        """Live one life after the other until told to stop."""

        def lives() -> None:
            while not self.stop.is_set():
                try:
                    live(self)
                except KafkaException as error:
                    if error.args[0].code() == KafkaError._INVALID_ARG:
                        self.wrong.append(f"{self.name}: {error}")
                        return

        thread = threading.Thread(target=lives, name=self.name, daemon=True)
        thread.start()
        return thread

    def consumer(self, group: str) -> Consumer:
        """Return a consumer of committed events."""
        config = {
            "group.id": group,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "heartbeat.interval.ms": 300,
            "session.timeout.ms": 6_000,
            "fetch.wait.max.ms": 100,
        }
        return Consumer({"bootstrap.servers": self.address, **config, **QUICK})

    def producer(self) -> Producer:
        """Return a transactional producer; what one of this name had begun is aborted by that."""
        config = {"transactional.id": self.name, "linger.ms": 1, "transaction.timeout.ms": 60_000}
        producer = Producer({"bootstrap.servers": self.address, **config, **QUICK})
        producer.init_transactions(STEP_S)
        return producer

    def settle(self) -> bool:
        """Leave no transaction open; tell whether that is so."""
        with suppress(KafkaException):
            self.producer()
            return True
        return False

    def subscribe(self, source: Consumer, topics: list[str]) -> None:
        """Join the group, and begin wherever its cursors are whenever partitions are assigned."""

        def assigned(source: Consumer, places: list[TopicPartition]) -> None:
            self._let_go()
            self.recorder.moved(self.name, [(each.topic, each.partition) for each in places])
            try:
                source.assign(source.committed(places, timeout=STEP_S))
            except KafkaException as error:
                # Closed while it joins: the client would raise what nobody can catch.
                if error.args[0].code() != KafkaError._DESTROY:
                    raise
                source.unassign()

        def revoked(source: Consumer, places: list[TopicPartition]) -> None:
            self._let_go()
            source.unassign()

        source.subscribe(topics, on_assign=assigned, on_revoke=revoked, on_lost=revoked)

    def _let_go(self) -> None:
        """Take down what was read before partitions were shared out anew, and do nothing with it.

        It is not this member's any more: whoever has the partitions now begins at their cursors.
        """
        if self._taken:
            self.recorder.add(self.name, Outcome.OK, _reads(self._taken))
            self._taken = []

    def poll(self, source: Consumer, most: int) -> list[Message]:
        """Return up to so many events."""
        self._taken = []
        while len(self._taken) < most and not self.stop.is_set():
            message = source.poll(0.02 if self._taken else 0.2)
            if message is None:
                break
            if message.error() is None:
                self._taken.append(message)
        found, self._taken = self._taken, []
        return found


class Transaction:
    """One transaction of a producer: what was sent in it, and how it ended."""

    def __init__(self, client: Client, producer: Producer) -> None:
        self._client = client
        self._producer = producer
        self._began = client.recorder.moment()
        self._values: list[tuple[Place, str]] = []
        self._offsets: dict[str, int] = {}
        self._is_asked = False

    def send(self, place: Place) -> None:
        """Send an event."""
        value = f"{self._client.name}.{next(_numbers)}"
        self._values.append((place, value))
        # Not a method: what is never delivered would keep this and its producer alive, which goes
        # on looking for its server, at an address that may be that of another one by then.
        delivered = partial(_delivered, self._offsets)
        self._producer.produce(place[0], value, partition=place[1], on_delivery=delivered)

    def end(
        self, work: Callable[[], None], *, commits: bool, read: Sequence[Read] = (), group: str = ""
    ) -> Outcome:
        """Do the work in a transaction; raises if the producer cannot be used any more."""
        failure: KafkaException | None = None
        try:
            self._producer.begin_transaction()
            work()
            outcome = self._finish(commits)
        except KafkaException as error:
            failure = error
        if failure is not None:
            outcome, failure = self._give_up(failure)
        sent = [Sent(place, value, self._offsets.get(value)) for place, value in self._values]
        self._client.recorder.add(self._client.name, outcome, [*read, *sent], self._began, group)
        if failure is not None:
            try:
                raise failure
            finally:
                # It has this frame, which would have it in turn.
                del failure
        self._client.done.add()
        return outcome

    def _finish(self, commits: bool) -> Outcome:
        if commits:
            self._is_asked = True
            self._producer.commit_transaction(STEP_S)
            return Outcome.OK
        self._producer.abort_transaction(STEP_S)
        return Outcome.ABORTED

    def _give_up(self, failure: KafkaException) -> tuple[Outcome, KafkaException | None]:
        if failure.args[0].txn_requires_abort():
            with suppress(KafkaException):
                self._producer.abort_transaction(STEP_S)
                return Outcome.ABORTED, None
        give_up(self._producer, STEP_S)
        return Outcome.UNKNOWN if self._is_asked else Outcome.ABORTED, failure


def _delivered(offsets: dict[str, int], error: KafkaError | None, message: Message) -> None:
    offset = message.offset()
    if error is None and offset is not None and offset >= 0:
        offsets[(message.value() or b"").decode()] = offset


def send(client: Client) -> None:
    """Write transactions over several partitions, and abort some."""
    producer = client.producer()
    while not client.stop.is_set():
        transaction = Transaction(client, producer)

        def work(transaction: Transaction = transaction) -> None:
            for _ in range(client.rng.randint(1, 5)):
                transaction.send(("in", client.rng.randrange(INPUTS)))

        transaction.end(work, commits=client.rng.random() < 0.8)


def work(client: Client) -> None:
    """Turn each event into another, exactly once."""
    source = client.consumer("works")
    failure: KafkaException | None = None
    try:
        _work(client, source)
    except KafkaException as error:
        # Callbacks may fail while it is closed, and what they raise keeps all that is known here.
        failure = error.with_traceback(None)
    source.close()
    if failure is not None:
        raise failure


def _work(client: Client, source: Consumer) -> None:
    client.subscribe(source, ["in"])
    producer = client.producer()
    while not client.stop.is_set():
        taken = client.poll(source, client.rng.randint(1, 10))
        if taken and not _process(client, source, producer, taken):
            _rewind(client, source, taken)


def _process(client: Client, source: Consumer, producer: Producer, taken: list[Message]) -> bool:
    transaction = Transaction(client, producer)
    ends = {_place(each): (each.offset() or 0) + 1 for each in taken}

    def work() -> None:
        for each in taken:
            transaction.send(("out", (each.offset() or 0) % OUTPUTS))
        places = [TopicPartition(*place, offset) for place, offset in ends.items()]
        group = source.consumer_group_metadata()
        producer.send_offsets_to_transaction(places, group, STEP_S)

    commits = client.rng.random() < 0.85
    outcome = transaction.end(work, commits=commits, read=_reads(taken), group="works")
    return outcome is Outcome.OK


def _rewind(client: Client, source: Consumer, taken: list[Message]) -> None:
    firsts: dict[Place, int] = {}
    for each in taken:
        firsts.setdefault(_place(each), each.offset() or 0)
    client.recorder.moved(client.name, list(firsts))
    for place, offset in firsts.items():
        source.seek(TopicPartition(*place, offset))


def seek(client: Client) -> None:
    """Read everything, and go back a little now and then."""
    source = client.consumer(client.name)
    try:
        positions = dict.fromkeys(PLACES, 0)
        _begin_at(client, source, positions)
        while not client.stop.is_set():
            taken = client.poll(source, client.rng.randint(1, 100))
            client.recorder.add(client.name, Outcome.OK, _reads(taken))
            positions |= {_place(each): (each.offset() or 0) + 1 for each in taken}
            if client.rng.random() < 0.02:
                place = client.rng.choice(PLACES)
                positions[place] = max(0, positions[place] - client.rng.randint(0, 50))
                client.recorder.moved(client.name, [place])
                source.seek(TopicPartition(*place, positions[place]))
    finally:
        source.close()


def _begin_at(client: Client, source: Consumer, positions: dict[Place, int]) -> None:
    client.recorder.moved(client.name, list(positions))
    source.assign([TopicPartition(*place, offset) for place, offset in positions.items()])


def come_and_go(client: Client) -> None:
    """Read as a member of a group, for a while."""
    source = client.consumer("crowd")
    try:
        client.subscribe(source, ["in", "out"])
        for _ in range(client.rng.randint(20, 80)):
            if client.stop.is_set():
                break
            taken = client.poll(source, client.rng.randint(1, 50))
            client.recorder.add(client.name, Outcome.OK, _reads(taken))
            if taken:
                source.commit(asynchronous=False)
    finally:
        source.close()


def read_everything(client: Client) -> None:
    """Read all that is there, from the first event on."""
    for place in PLACES:
        config = {"isolation.level": "read_committed", "enable.partition.eof": True}
        config |= {"enable.auto.commit": False, "group.id": client.name}
        source = Consumer({"bootstrap.servers": client.address, **config, **QUICK})
        try:
            found: list[Message] = []
            errors: list[Message] = []
            source.assign([TopicPartition(*place, 0)])
            until = time.monotonic() + LAST_S
            while not found or found[-1].error() is None:
                assert time.monotonic() < until, _why(source, place, found, errors)
                if (message := source.poll(STEP_S)) is None:
                    continue
                (found if _counts(message) else errors).append(message)
        finally:
            source.close()
        client.recorder.add(client.name, Outcome.OK, _reads(found[:-1]))


def _why(
    source: Consumer, place: Place, found: Sequence[Message], errors: Sequence[Message]
) -> str:
    """Say all that is known of a partition that does not end."""
    at = TopicPartition(*place)
    ends, cached = (source.get_watermark_offsets(at, 10, cached=each) for each in (False, True))
    return (
        f"{place} does not end: {len(found)} events read, then {len(errors)} errors, the last ones "
        f"{[str(each.error()) for each in errors[-3:]]}; at {source.position([at])}, ends {ends}, "
        f"when last fetched {cached}"
    )


def _counts(message: Message) -> bool:
    error = message.error()
    return error is None or error.code() == KafkaError._PARTITION_EOF


def _place(message: Message) -> Place:
    return message.topic() or "", message.partition() or 0


def _reads(taken: Sequence[Message]) -> list[Read]:
    return [
        Read(_place(each), (each.value() or b"").decode(), each.offset() or 0) for each in taken
    ]
