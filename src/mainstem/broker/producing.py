"""Record batches of producers that can be told apart: decided, appended and applied as one.

How this works: under the broker's lock, so that no two requests decide on the same old state, a
batch is first compared with what its producer has written before. If it is there already, the
answer is where. Otherwise it is appended, with whatever must be written down together with it in
the same append, and then everything that was decided is made true.
"""

from collections.abc import Callable, Sequence

from mainstem.broker.ledger import LedgerChange
from mainstem.broker.overload import Held
from mainstem.broker.producers import Producers
from mainstem.broker.publishing import Published, Run
from mainstem.broker.sequences import in_a_row
from mainstem.broker.state import OpenTopic, State
from mainstem.broker.topics import Topic
from mainstem.broker.transactions import Transactions
from mainstem.core.batch import BatchHeader
from mainstem.core.errors import UnknownPartition, UnknownTopic
from mainstem.log.port import Appended, WritableBatch


class Producing:
    """Appends the batches of idempotent producers."""

    def __init__(
        self,
        state: State,
        producers: Producers,
        transactions: Transactions,
        now_ms: Callable[[], int],
    ) -> None:
        self._state = state
        self._producers = producers
        self._transactions = transactions
        self._now_ms = now_ms

    def append(
        self, topic: str, run: Run, header: BatchHeader, held: Held | None, *, joins: bool
    ) -> Published | Held:
        """Append a batch, unless it is there already; never waits.

        ``joins``: a partition that its transaction has not touched yet is added by that. Raises
        OutOfOrderSequence, InvalidProducerEpoch, UnknownProducer, InvalidTransactionState,
        Overloaded; nothing was appended then.
        """
        now_ms = self._now_ms()
        number = run.partition
        with self._state.lock:
            opened = self._open(topic, number)
            touched = self._transactions.enter(opened.topic, number, header, joins=joins)
            known = self._producers.at(opened.topic, number).decide(header)
            if known is not None:
                return Published([run], [known[0]], known[1])
            counts = {number: len(run.places)}
            if opened.gate is not None:
                again = opened.gate.admit(counts, now_ms, held)
                if again is not None:
                    return again
            appended = self._append(opened.topic, number, (run.batch,), (header,), touched)
            if opened.gate is not None:
                opened.gate.shed(counts, now_ms)
        return Published([run], appended.offsets, appended.durable)

    def append_run(
        self,
        topic: str,
        number: int,
        batches: Sequence[WritableBatch],
        headers: Sequence[BatchHeader],
        *,
        joins: bool,
    ) -> Appended:
        """Append batches to a topic without a backlog limit, as many as can be at once.

        At least the first; raises what ``append`` would raise for that.
        """
        with self._state.lock:
            opened = self._open(topic, number)
            touched = self._transactions.enter(opened.topic, number, headers[0], joins=joins)
            known = self._producers.at(opened.topic, number).decide(headers[0])
            if known is not None:
                start = self._state.log.bounds(opened.topic.partitions[number]).start
                return Appended([known[0]], known[1], [start])
            count = in_a_row(headers)
            return self._append(opened.topic, number, batches[:count], headers, touched)

    def _append(
        self,
        topic: Topic,
        number: int,
        batches: Sequence[WritableBatch],
        headers: Sequence[BatchHeader],
        touched: Sequence[LedgerChange],
    ) -> Appended:
        """Append what was decided, and make it true."""
        producers, settlements = self._producers, self._transactions.settlements
        partition = topic.partitions[number]
        changes = producers.begin(topic, number)
        if changes or touched:
            now_ms = self._now_ms()
            records = producers.batches(changes, now_ms) + settlements.batches(touched, now_ms)
            appended = self._state.log.append([(partition, batches[0]), *records])
            del appended.offsets[1:], appended.starts[1:]
        else:
            appended = self._state.log.append(
                [(partition, batch) for batch in batches], together=False
            )
        settlements.appended(touched)
        for header, offset in zip(headers, appended.offsets, strict=False):
            producers.appended(partition, header, offset, appended.durable, changes)
            changes = []
        return appended

    def _open(self, topic: str, number: int) -> OpenTopic:
        opened = self._state.opened.get(topic)
        if opened is None:
            raise UnknownTopic(topic)
        if number >= len(opened.topic.partitions):
            raise UnknownPartition(topic, number, len(opened.topic.partitions))
        return opened
