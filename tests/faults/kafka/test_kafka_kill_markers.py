"""kill -9 in each write of the end of a transaction: it has ended in all partitions or in none."""

from pathlib import Path

import pytest
from tests.broker.transactions.transactional_producers import committed
from tests.faults.killable_server import DIES_IN_WRITE, Mortal, create
from tests.heads.kafka.raw_peers import Peer
from tests.heads.kafka.transactional_producer import TransactionalProducer

PARTITIONS = 4
END = {
    "module": "mainstem.broker.transactions.transactions",
    "owner": "Transactions",
    "method": "end",
}

DOES_NOT_WRITE_DOWN_THE_END = """
from mainstem.broker.journal import IDS, TRANSACTIONS
from mainstem.log.disk import DiskLog
real = DiskLog.append
def append(self, batches, *, together=True, lazy=False):
    if len(batches) < 3:
        return real(self, batches, together=together, lazy=lazy)
    return real(self, [each for each in batches if each[0].topic_id != IDS[TRANSACTIONS]])
DiskLog.append = append
"""


class Teller:
    """A producer that writes to every partition in each of its transactions, by the older rules."""

    def __init__(self, address: str) -> None:
        self._producer = TransactionalProducer(Peer(address), "teller", version=4)
        self._sequence = 0

    def reconnect(self, address: str) -> None:
        self.close()
        self._producer.peer = Peer(address)

    def close(self) -> None:
        self._producer.peer.socket.close()

    def write(self, value: bytes) -> None:
        self._producer.add(partitions=range(PARTITIONS))
        for partition in range(PARTITIONS):
            written = self._producer.write(9, self._sequence, partition=partition, values=[value])
            assert written.error_code == 0
        self._sequence += 1

    def end(self, *, commits: bool) -> bool:
        """End the transaction; tell whether that was acknowledged."""
        try:
            ended = self._producer.end(3, committed=commits)
        except (EOFError, ConnectionError):
            return False
        assert ended.error_code == 0
        return True


def end_through_deaths(path: Path, *, commits: bool, flaw: str = "") -> tuple[int, list[str]]:
    """Die in each write of an end, in turn; return how many there are, and what is wrong."""
    wrong: list[str] = []
    expected: list[bytes | None] = []
    with Mortal(path, flaw=flaw, crash=DIES_IN_WRITE.format(call=1, nth=0, **END)) as server:
        create(server.address, "t", PARTITIONS)
        teller = Teller(server.address)
        for nth in range(1, 100):
            before = list(expected)
            expected += [b"%d" % nth] if commits else []
            teller.write(b"%d" % nth)
            if teller.end(commits=commits):
                break
            server.wait()
            with server.corpse() as broker:
                left = [committed(broker, partition) for partition in range(PARTITIONS)]
            if left not in ([before] * PARTITIONS, [expected] * PARTITIONS):
                wrong.append(f"after write {nth}: {left}")
            # Its producer hears nothing, and asks again.
            server.start(DIES_IN_WRITE.format(call=2, nth=nth, **END))
            teller.reconnect(server.address)
            assert teller.end(commits=commits)
        teller.close()
        server.kill()
        with server.corpse() as broker:
            left = [committed(broker, partition) for partition in range(PARTITIONS)]
        if left != [expected] * PARTITIONS:
            wrong.append(f"in the end: {left}")
    return nth, wrong


@pytest.mark.parametrize("commits", [True, False])
def test_a_transaction_has_ended_in_all_partitions_or_in_none(
    tmp_path: Path, commits: bool
) -> None:
    writes, wrong = end_through_deaths(tmp_path / "data", commits=commits)

    assert wrong == []
    # A marker in each partition, the ledger, and the write-ahead log.
    assert writes >= PARTITIONS + 2


def test_it_would_be_noticed_if_the_end_were_not_written_down(tmp_path: Path) -> None:
    flaw = DOES_NOT_WRITE_DOWN_THE_END

    _, wrong = end_through_deaths(tmp_path / "data", commits=True, flaw=flaw)

    assert wrong != []
