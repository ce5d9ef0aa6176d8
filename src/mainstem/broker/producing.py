"""Record batches of producers that can be told apart: decided, appended and applied as one.

How this works: under the broker's lock, so that no two requests decide on the same old state, a
batch is first compared with what its producer has written before. If it is there already, the
answer is where. Otherwise it is appended, with whatever must be written down together with it in
the same append, and then everything that was decided is made true.
"""

from collections.abc import Callable

from mainstem.broker.overload import Held
from mainstem.broker.producers import Producers
from mainstem.broker.publishing import Published, Run
from mainstem.broker.state import OpenTopic, State
from mainstem.broker.transactions import Transactions
from mainstem.core.batch import BatchHeader
from mainstem.core.errors import UnknownPartition, UnknownTopic


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
        producers, number = self._producers, run.partition
        with self._state.lock:
            opened = self._open(topic, number)
            touched = self._transactions.enter(opened.topic, number, header, joins=joins)
            known = producers.at(opened.topic, number).decide(header)
            if known is not None:
                return Published([run], [known[0]], known[1])
            counts = {number: len(run.places)}
            if opened.gate is not None:
                again = opened.gate.admit(counts, now_ms, held)
                if again is not None:
                    return again
            partition = opened.topic.partitions[number]
            changes = producers.begin(opened.topic, number)
            settlements = self._transactions.settlements
            together = [(partition, run.batch)]
            if changes or touched:
                together += producers.batches(changes, now_ms)
                together += settlements.batches(touched, now_ms)
            appended = self._state.log.append(together)
            offset = appended.offsets[0]
            settlements.appended(touched)
            producers.appended(partition, header, offset, appended.durable, changes)
            if opened.gate is not None:
                opened.gate.shed(counts, now_ms)
        return Published([run], [offset], appended.durable)

    def _open(self, topic: str, number: int) -> OpenTopic:
        opened = self._state.opened.get(topic)
        if opened is None:
            raise UnknownTopic(topic)
        if number >= len(opened.topic.partitions):
            raise UnknownPartition(topic, number, len(opened.topic.partitions))
        return opened
